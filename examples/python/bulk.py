"""Read many deals: a limited number at a time, in order, with an error in place
of each one that could not be retrieved, and a line that shows the progress.

Takes the service's URL and key from DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY.
"""

from dealkit import Client, DealkitError


def main() -> None:
    ids = ["d_1", "d_2", "no-such-deal", "d_3", ".."]
    lines: list[str] = []
    failed = 0
    with Client() as client:
        for result in client.deals.retrieve_many(
            ids, concurrency=32, on_error="return", progress=True
        ):
            if isinstance(result, DealkitError):
                failed += 1
                lines.append(f"{result.id}: {result}")
            else:
                lines.append(f"{result.id}: {result.status}")
    print(*lines, sep="\n")
    print(f"{failed} of {len(ids)} failed")


if __name__ == "__main__":
    main()
