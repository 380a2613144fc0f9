"""The pager: which events want a person, what the page says, and that it is sent at least once."""

from faultbridge.services.pager.deliver import Delivered, Paging
from faultbridge.services.pager.marks import Fate
from faultbridge.services.pager.page import Links, Page, PagerSettings, PageState
from faultbridge.services.pager.remind import Remind, Reminded

__all__ = ["Delivered", "Fate", "Links", "Page", "PageState", "PagerSettings", "Paging", "Remind", "Reminded"]
