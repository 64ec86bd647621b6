"""The quickstart for asyncio: several calls at a time, each with its own
timeout.

Takes the service's URL and key from DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY.
"""

import asyncio

from dealkit import AsyncClient


async def main() -> None:
    async with AsyncClient() as client:
        # Not in the group below: if one task of a group fails, the group
        # cancels the others, and the agent of a cancelled create may exist.
        agent = await client.agents.create(
            email="grace@example.com",
            first_name="Grace",
            last_name="Hopper",
            profile={"tier": "A"},
        )
        print(f"created {agent.id}")

        async with asyncio.TaskGroup() as tasks:
            reading = [
                tasks.create_task(client.deals.retrieve(id))
                for id in ("d_1", "d_2", "d_3")
            ]
        for deal in (task.result() for task in reading):
            print(f"{deal.id} is {deal.status}")

        # Cancelling the task of a read aborts its request.
        async with asyncio.timeout(5):
            deal = await client.deals.retrieve("d_1")
        print(f"{deal.id} has {len(deal.contacts)} contacts")


if __name__ == "__main__":
    asyncio.run(main())
