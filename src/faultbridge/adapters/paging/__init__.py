"""Pages through SNS and PagerDuty.

Read in this order:

- `channels`: sends a page through every configured channel
- `sns`: SNS topics
- `pagerduty`: PagerDuty's Events API v2
"""
