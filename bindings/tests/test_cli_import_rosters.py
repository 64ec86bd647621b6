"""Twelve rosters as offices export them, imported with three commands each: a dry run, the import, and the import of the
corrected rows.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from commands import CommandResult, run_command
from office_rosters.rosters import write_roster
from office_rosters.score import fix, score

from dealkit.testing import Sandbox

# The office's knowledge that is not in its roster: options, the country of the phone numbers, and the role of each word.
KNOWLEDGE: dict[str, tuple[list[str], str, dict[str, str]]] = {
    "reso_member.csv": (
        ["--map", "MemberType=role"],
        "US",
        {
            "BROKER_ADMIN": "Designated REALTOR Participant, MLS Only Broker",
            "OFFICE_ADMIN": "Office Manager",
            "ADMIN": "Association Staff, Multiple Listing Service Staff",
            "AGENT": "REALTOR Salesperson, MLS Only Salesperson, Licensed Assistant, Unlicensed Assistant",
        },
    ),
    "boldtrail.xlsx": (
        ["--sheet", "Users"],
        "US",
        {
            "BROKER_ADMIN": "Company Admin",
            "COLLECTIVE_ADMIN": "Team Admin",
            "ADMIN": "Account Admin",
            "AGENT": "Lender",
        },
    ),
    "followupboss.csv": (
        [
            *("--map", "Name=first_name+last_name", "--map", "Custom Birthday=date_of_birth"),
            *("--map", "Login Email=email", "--map-value", "date_of_birth:1/1/1900="),
        ],
        "US",
        {
            "BROKER_ADMIN": "Owner, Broker",
            "COLLECTIVE_ADMIN": "Team Leader",
            "OFFICE_ADMIN": "Office Manager",
            "AGENT": "ISA, Lender",
        },
    ),
    "brokermint.xlsx": (
        ["--map", "User=first_name+last_name"],
        "US",
        {"BROKER_ADMIN": "Account owner", "COLLECTIVE_ADMIN": "Team leader", "AGENT": "Transaction coordinator"},
    ),
    "dotloop.csv": (
        ["--map", "column C=email"],
        "US",
        {
            "BROKER_ADMIN": "Broker, Managing Broker",
            "COLLECTIVE_ADMIN": "Team Lead",
            "AGENT": "Transaction Coordinator, Team Member",
        },
    ),
    "kvcore.csv": (
        ["--key", "MLS", "--key", "License #"],
        "US",
        {
            "BROKER_ADMIN": "Company Admin",
            "COLLECTIVE_ADMIN": "Team Admin",
            "ADMIN": "Super Admin",
            "AGENT": "Lender, Assistant/ISA",
        },
    ),
    "outlook.csv": (
        ["--encoding", "cp1252"],
        "US",
        {
            "BROKER_ADMIN": "Broker/Owner, Managing Broker",
            "OFFICE_ADMIN": "Office Manager",
            "COLLECTIVE_ADMIN": "Team Leader",
            "ADMIN": "IT Admin",
            "AGENT": "Realtor, Sales Associate, Broker Associate",
        },
    ),
    "google_contacts.csv": (
        [],
        "US",
        {
            "BROKER_ADMIN": "Broker",
            "OFFICE_ADMIN": "Office Manager",
            "COLLECTIVE_ADMIN": "Team Lead",
            "AGENT": "Realtor, REALTOR®",
        },
    ),
    "broker_list.xlsx": (
        ["--sheet", "Agents 2025", "--map", "Cell=phone", "--map", "column B=first_name+last_name"],
        "US",
        {
            "BROKER_ADMIN": "Broker/Owner, Managing Broker",
            "OFFICE_ADMIN": "Office Manager",
            "COLLECTIVE_ADMIN": "Team Lead",
            "ADMIN": "Bookkeeper",
            "AGENT": "Realtor, Assoc. Broker, New Agent",
        },
    ),
    "maklerbuero.csv": (
        ["--encoding", "cp1252", "--date-format", "DD.MM.YYYY", "--date-format", "DD.MM.YY"],
        "DE",
        {
            "BROKER_ADMIN": "Geschäftsführer, Geschäftsführerin",
            "OFFICE_ADMIN": "Büroleiter, Büroleiterin, Niederlassungsleitung",
            "COLLECTIVE_ADMIN": "Teamleiter, Teamleiterin",
            "ADMIN": "Administration",
            "AGENT": "Makler, Maklerin, Immobilienmakler, Immobilienmaklerin, Immobilienberater, Immobilienberaterin",
        },
    ),
    "agence_france.xlsx": (
        [
            *("--date-format", "DD/MM/YYYY", "--date-format", "DD/MM/YY"),
            *("--map-value", "date_of_birth:NC=", "--map-value", "phone:NC="),
        ],
        "FR",
        {
            "BROKER_ADMIN": "Gérant, Gérante, Directeur général",
            "OFFICE_ADMIN": "Directeur d'agence, Directrice d'agence, Responsable d'agence",
            "COLLECTIVE_ADMIN": "Chef d'équipe, Cheffe d'équipe",
            "ADMIN": "Administratif",
            "AGENT": "Négociateur, Négociatrice, Conseiller, Conseillère, Agent commercial, Mandataire",
        },
    ),
    "inmobiliaria.csv": (
        [
            *("--map", "Apellidos y nombre=last_name+first_name", "--date-format", "DD/MM/YYYY"),
            *("--date-format", "DD/MM/YY", "--map-value", "phone:no tiene="),
            *("--map-value", "date_of_birth:no tiene=", "--map-value", "date_of_birth:01/01/1900="),
        ],
        "ES",
        {
            "BROKER_ADMIN": "Gerente",
            "OFFICE_ADMIN": "Director de oficina, Directora de oficina, Coordinadora de oficina",
            "COLLECTIVE_ADMIN": "Jefe de equipo, Jefa de equipo",
            "ADMIN": "Administración",
            "AGENT": "Agente, Agente inmobiliario, Agente inmobiliaria, Comercial, Asesor, Asesora",
        },
    ),
}


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_an_office_imports_its_roster_with_three_commands(name: str, tmp_path: Path) -> None:
    roster = write_roster(name, tmp_path)
    options, country, words = KNOWLEDGE[name]
    options = [*options, "--phone-country", country, "--mapping", "roster.toml"]
    for role, texts in words.items():
        options += [part for text in texts.split(", ") for part in ("--map-value", f"role:{text}={role}")]
    with Sandbox() as sandbox:

        def run(*arguments: str) -> CommandResult:
            return run_command(*arguments, url=sandbox.url, cwd=tmp_path)

        completed = run("agents", "import", name, *options, "--dry-run")
        completed = run(*_last_command(completed), "--yes")
        first = score(name, _bodies(sandbox))
        if "import it:" in completed.stdout:
            command = shlex.split(completed.stdout.split("import it:")[1].splitlines()[1])[1:]
            rejects = tmp_path / command[2]
            fix(name, rejects, rejects)
            completed = run(*command, "--yes")
        result = score(name, _bodies(sandbox))
    summary = {key: value for key, value in result.items() if key != "rows"}
    details = json.dumps(result["rows"], ensure_ascii=False, indent=1)
    assert first["correct"] >= 0.95 * first["clean"], (name, first)
    assert result["wrong"] == result["created_twice"] == result["created_although_not_a_person"] == 0, details
    # An incomplete address that the rules accept is only worth a look.
    wrong_fields = {field for item in result["rows"]["defects_created_wrong"] for field in item["fields"]}
    assert wrong_fields <= {"email"}, details
    done = result["correct"] + result["defects_created_with_right_values"] + result["correctly_rejected"]
    assert done >= 0.98 * len(roster.people), (summary, details)


def _last_command(completed: CommandResult) -> list[str]:
    return shlex.split(completed.stdout.splitlines()[-1])[1:]


def _bodies(sandbox: Sandbox) -> list[dict[str, Any]]:
    return [dict(agent.sent) for agent in sandbox.agents]
