"""Pager: turns events of the bus into pages, summaries and reminders for operators.

Read in this order:

- `page`: a page before rendering, links, and the settings of the pager
- `page_rule`: one kind of page: which events trigger or resolve it, its key and its texts
- `rules`: all kinds of pages, and the rules that apply to an event; those of cases are here
- `operator_rules`, `cluster_rules`: the kinds of pages about operators' orders and about whole clusters
- `compose`: writes a page from an event, its rule and the stored case and node
- `page_deduplication`: the last state sent for each page key, so that a repeated event sends nothing new
- `open_pages`: pages that are triggered and not resolved, and the page limit of an hour
- `deliver`: sends the pages of one event, at least once
- `remind`: each minute, sends summaries of withheld pages and reminders of unresolved ones
- `text_formats`: subject, SMS, email text, attributes and JSON of a page
- `service_formats`: pages for PagerDuty and chat applications
- `chat_formats`: pages for the webhooks of Slack and Microsoft Teams

Delivery is at least once, under the same key. If the table does not answer before a page is sent, the event is retried.
Tests: tests/pager, tests/scenarios/operators/test_pages.py.
"""
