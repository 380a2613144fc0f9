"""The web console: its pages, and report files, as HTML.

Read in this order: `facts` (what one page shows, with a limited number of reads), `pages` (the page of a path, and its
response), `html` (templates, and escaped values), `report` (a page as one file). `templates` contains the HTML,
`assets` the style sheet and the script. Tests: tests/console.
"""
