"""The cluster of a file's tests."""

from collections.abc import Iterator

import pytest

from tests.citus.cluster import MISSING, SERVER, Cluster, running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A coordinator and two workers, all of which run when a test begins."""
    if not (SERVER / "pginstall").exists():
        pytest.skip(MISSING)
    with running() as made:
        yield made


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> Iterator[None]:
    """Starts again what a test killed."""
    yield
    for node in cluster.nodes:
        node.start()
