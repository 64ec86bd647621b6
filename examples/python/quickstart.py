"""Create an agent, read a deal, and show both.

Takes the service's URL and key from DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY.
"""

from datetime import date

from dealkit import Agent, Client, Deal, NotFoundError, Role


def main() -> None:
    with Client() as client:
        agent = client.agents.create(  # Reports every violation before sending.
            email="ada@example.com",
            first_name="Ada",
            last_name="Lovelace",
            profile={
                "tier": "A",
                "external_id": "crm-17",
                "client_metadata": {"source": "quickstart"},
            },
            role=Role.AGENT,
            phone="+15550100",
            date_of_birth=date(1815, 12, 10),
            brokerage_id="b_1",
        )
        show_agent(agent)

        deal = client.deals.retrieve("d_1")
        show_deal(deal)

        # A deal that does not exist raises an exception of its own class.
        try:
            client.deals.retrieve("no-such-deal")
        except NotFoundError as error:
            print("\nA deal that does not exist")
            print(f"  status code   {error.status_code}")
            print(f"  as text       {error}")


def show_agent(agent: Agent) -> None:
    print("Created an agent")
    print(f"  id            {agent.id}")
    print(f"  name          {agent.first_name} {agent.last_name}")
    print(f"  e-mail        {agent.email}")
    print(f"  born          {or_dash(agent.date_of_birth)}")
    print(f"  brokerage     {or_dash(agent.current_brokerage_id)}")
    for assignment in agent.role_assignments:
        print(f"  role          {assignment.role}")
    print(f"  external id   {or_dash(agent.profile.external_id)}")


def show_deal(deal: Deal) -> None:
    print(f"\nRead deal {deal.id}")
    print(f"  status        {or_dash(deal.status)}")
    print(f"  phase         {or_dash(deal.phase)}")
    print(f"  created       {or_dash(deal.created_at)}")
    print(f"  expires       {or_dash(deal.expiry_date)}")
    if contract := deal.listing_contract:
        if address := contract.address:
            print(
                f"  address       {or_dash(address.line1)}, {or_dash(address.city)}"
            )
        print(f"  sale price    {or_dash(contract.sale_price)}")
        print(f"  closes        {or_dash(contract.expected_close_date)}")
    if application := deal.application:
        print(
            f"  application   {or_dash(application.status)}, {or_dash(application.requested_amount)} requested"
        )
        for offer in application.offers:
            # Exact decimals: 10.10 stays 10.10.
            percent, fee = (
                or_dash(offer.percent_of_commission),
                or_dash(offer.origination_fee_percent),
            )
            until = or_dash(offer.expiry_date_time)
            print(
                f"    offer       {percent} % of the commission, fee {fee} %, until {until}"
            )
    for quote in deal.quotes:
        print(
            f"  quote         {or_dash(quote.estimated_amount_min)} to {or_dash(quote.estimated_amount_max)}"
        )
    for contact in deal.contacts:
        print(
            f"  contact       {or_dash(contact.type)}, {len(contact.fields)} fields"
        )
    for side in deal.sides:
        print(
            f"  side          {or_dash(side.gross_commission)} gross, {or_dash(side.side_percentage)} %"
        )
    for name, value in deal.metadata.items():
        print(f"  metadata      {name} = {value}")


def or_dash(value: object) -> str:
    """Formats an optional field: all fields of a deal but its id may be missing."""
    return "-" if value is None else str(value)


if __name__ == "__main__":
    main()
