"""The pager: which events want a person, what the page says, and that it is sent at least once."""

from faultbridge.services.pager.deliver import Delivered, Fate, Paging
from faultbridge.services.pager.page import Page, PageState

__all__ = ["Delivered", "Fate", "Page", "PageState", "Paging"]
