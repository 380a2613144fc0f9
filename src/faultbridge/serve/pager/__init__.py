"""Pager: turns events of the bus into pages, summaries and reminders for operators.

Read in this order:

- `page`: the content of a page, links, and the settings of the pager
- `rules`: one kind of page: which events trigger or resolve it, its key and its texts. The kinds of pages about
  cases, and the search for the rules that apply to an event. The kinds of pages about operators' orders and about
  whole clusters
- `deliver`: writes a page from an event, its rule and the stored case and node. Reads the data of an event that was
  too large for the bus from its entry in the table. Sends the pages of one event, at least once
- `page_deduplication`: stores the last state sent for each page key, so that a repeated event sends no page again
- `open_pages`: stores the pages that are triggered and not resolved, and counts pages against the hourly limit
- `silenced`: which pages a silence of the cluster holds, and the one line when the silence is over
- `remind`: each minute, sends summaries of withheld pages, reminders of urgent pages, and postponed pages
- `service_formats`: renders a page as subject, SMS, email text, attributes and JSON. Renders a page for PagerDuty and
  Amazon Q Developer. Renders a page for the webhooks of Slack and Microsoft Teams

A page may be sent more than once, always under the same key. If the table does not answer before a page is sent, the
event is retried. Tests: tests/pager, tests/scenarios/operators/test_pages.py.
"""
