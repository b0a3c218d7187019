import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Rows of toys are tiny: threads only get in each other's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
