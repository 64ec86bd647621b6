"""The JSON schemas of the fields of a create request, for pydantic, and the names of the profile's fields in Python."""

from typing import Any

# fmt: off
# Written by bindings/stubs.py: do not change what follows.

CREATE_AGENT: dict[str, Any] = {'email': {'type': 'string',
           'format': 'idn-email',
           'examples': ['ada@example.com'],
           'description': 'A bare mailbox as in RFC 5321: no display name, no comment, no space around it. '
                          'Non-ASCII letters are allowed. No uniqueness rule is specified: the same address '
                          'twice makes two agents.'},
 'first_name': {'type': 'string',
                'minLength': 1,
                'maxLength': 255,
                'examples': ['Ada'],
                'description': 'Length in Unicode code points.'},
 'last_name': {'type': 'string',
               'minLength': 1,
               'maxLength': 255,
               'examples': ['Lovelace'],
               'description': 'Length in Unicode code points.'},
 'profile': {},
 'role': {'description': 'Missing means `AGENT`. The specification does not make it nullable: null is '
                         'rejected.'},
 'phone': {'type': 'string',
           'pattern': '^\\+[0-9]+$',
           'examples': ['+15550100'],
           'description': 'A plus sign and ASCII digits, at least one. The specification gives no length, so '
                          'there is no upper bound. Null is rejected.'},
 'image_url': {'type': ['string', 'null'],
               'pattern': '^[Hh][Tt][Tt][Pp][Ss]?:[^\\u0000-\\u0020\\u007f-\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]*$',
               'examples': ['https://example.com/ada.png'],
               'description': 'An absolute URL with the scheme http or https and a host, and with no white '
                              'space and no control character anywhere. There is no `format: uri` here '
                              'because that allows ASCII only, and this takes non-ASCII letters too. The '
                              'pattern says less than a URL parser: `https:` alone is rejected. Null means '
                              'the same as missing.'},
 'date_of_birth': {'type': ['string', 'null'],
                   'format': 'date',
                   'pattern': '^([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$',
                   'examples': ['1990-02-28'],
                   'description': 'A day that exists, years 0001 to 9999. Null means the same as missing.'},
 'brokerage_id': {'type': ['string', 'null'],
                  'examples': ['b_1'],
                  'description': 'Opaque: any string. Null means the same as missing.'},
 'office_id': {'type': ['string', 'null'],
               'examples': ['o_1'],
               'description': 'Opaque: any string. Null means the same as missing.'},
 'collective_id': {'type': ['string', 'null'],
                   'examples': ['c_1'],
                   'description': 'Opaque: any string. Null means the same as missing.'},
 'extra': {'type': 'object',
           'additionalProperties': True,
           'description': 'Undocumented fields of the request, which are sent unchanged, next to the '
                          'documented fields.'}}

PROFILE: dict[str, Any] = {'tier': {'type': 'string',
          'examples': ['A'],
          'description': 'The one known sample is `A`; other values are not shown, so any string is taken.'},
 'id': {'type': 'string', 'description': 'An opaque identifier.'},
 'user_id': {'type': 'string', 'description': 'An opaque identifier.'},
 'partner_uuid': {'type': 'string', 'description': 'An opaque identifier; no UUID form is required.'},
 'partner_office_id': {'type': 'string', 'description': 'An opaque identifier.'},
 'partner_mls_agent_id': {'type': 'string', 'description': 'An opaque identifier.'},
 'partner_mls_id': {'type': 'string', 'description': 'An opaque identifier.'},
 'partner_status': {'type': 'string', 'description': 'Any string; the allowed values are not shown.'},
 'mls_id': {'type': 'string', 'description': 'An opaque identifier.'},
 'onboarding_complete': {'type': 'boolean',
                         'description': 'Comes back as `profile.onboarding_complete`; false when missing.'},
 'processor_connected_account_id': {'type': 'string', 'description': 'An opaque identifier.'},
 'processor_onboarding_complete': {'type': 'boolean',
                                   'description': 'Taken and checked; not part of the response.'},
 'client_metadata': {'type': 'object',
                     'additionalProperties': True,
                     'description': "Any JSON object of the caller's own. Comes back as "
                                    '`profile.client_metadata`, numbers digit for digit as sent.',
                     'examples': [{'crm_id': 'A-17', 'weight': 10.5}]},
 'external_id': {'type': 'string',
                 'description': "The caller's own identifier. Comes back as `profile.external_id`."},
 'extra': {'type': 'object',
           'additionalProperties': True,
           'description': 'Undocumented fields of the profile, which are sent unchanged, next to the '
                          'documented fields.'}}

PROFILE_EXAMPLES: list[dict[str, Any]] = [{'tier': 'A', 'onboarding_complete': True, 'external_id': 'crm-17', 'client_metadata': {'team': 'north'}},
 {}]

PROFILE_NAMES: dict[Any, Any] = {'tier': 'tier',
 'id': 'id',
 'userId': 'user_id',
 'partnerUUID': 'partner_uuid',
 'partnerOfficeId': 'partner_office_id',
 'partnerMlsAgentId': 'partner_mls_agent_id',
 'partnerMlsId': 'partner_mls_id',
 'partnerStatus': 'partner_status',
 'mlsId': 'mls_id',
 'onboardingComplete': 'onboarding_complete',
 'processorConnectedAccountId': 'processor_connected_account_id',
 'processorOnboardingComplete': 'processor_onboarding_complete',
 'clientMetadata': 'client_metadata',
 'externalId': 'external_id'}
