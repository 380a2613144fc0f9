"""Send pages through SNS, PagerDuty and chats.

Read in this order:

- `channels`: sends a page through every configured channel
- `sns`: SNS topics
- `pagerduty`: PagerDuty's Events API v2
- `chat_webhooks`: Slack and Microsoft Teams
- `http_post`: one HTTP post, and which of its errors are retried
"""
