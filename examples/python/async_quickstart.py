"""The quickstart for asyncio: several calls at a time, each with its own
timeout.

Takes the service's URL and key from DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY.
"""

import asyncio

from dealkit import AsyncClient


async def main() -> None:
    async with AsyncClient() as client:
        async with asyncio.TaskGroup() as tasks:
            creating = tasks.create_task(
                client.agents.create(
                    email="grace@example.com",
                    first_name="Grace",
                    last_name="Hopper",
                    profile={"tier": "A"},
                )
            )
            reading = [
                tasks.create_task(client.deals.retrieve(id))
                for id in ("d_1", "d_2", "d_3")
            ]
        print(f"created {creating.result().id}")
        for deal in (task.result() for task in reading):
            print(f"{deal.id} is {deal.status}")

        # Cancelling the task of a call aborts its request.
        async with asyncio.timeout(5):
            deal = await client.deals.retrieve("d_1")
        print(f"{deal.id} has {len(deal.contacts)} contacts")


if __name__ == "__main__":
    asyncio.run(main())
