"""test.bench.bill.blocks: which block a stack sample of the API server counts to."""

from __future__ import annotations

import pytest

from test.bench.bill.blocks import OVERHEAD, REST, REVIEWS, WATCHES, seconds_by_block

_HANDLER = "k8s.io/apiserver/pkg/endpoints/handlers"
_FILTER = "k8s.io/apiserver/pkg/server/filters.(*timeoutHandler).ServeHTTP.func1"


@pytest.mark.parametrize(
    ("stack", "block"),
    [
        ((_FILTER, f"{_HANDLER}.UpdateResource.func1", "registry.(*Store).Update"), "update"),
        (("finisher.finishRequest.func1", f"{_HANDLER}.CreateResource.createHandler.func1.2"), "create"),
        (
            (
                _FILTER,
                f"{_HANDLER}.(*patcher).patchResource.func2",
                "cacher.(*CacheDelegator).GuaranteedUpdate",
            ),
            "patch",
        ),
        (
            (
                f"{_HANDLER}.createHandler.func1",
                "k8s.io/apiserver/pkg/admission/plugin/webhook/generic.(*Webhook)",
            ),
            REVIEWS,
        ),
        ((_FILTER, f"{_HANDLER}.ListResource.func1", f"{_HANDLER}.handleWatch"), WATCHES),
        ((_FILTER, f"{_HANDLER}.ListResource.func1"), "list"),
        ((_FILTER, "github.com/emicklei/go-restful/v3.CurlyRouter.SelectRoute"), OVERHEAD),
        (("runtime.gcBgMarkWorker", "runtime.scanObject"), REST),
    ],
)
def test_a_stack_belongs_to_the_first_block_with_one_of_its_functions(
    stack: tuple[str, ...], block: str
) -> None:
    assert seconds_by_block({stack: 0.5}) == {block: 0.5}
