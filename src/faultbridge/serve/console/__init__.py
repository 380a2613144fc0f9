"""The web console: its pages, and report files, as HTML.

Read in this order:

- `facts`: reads what one page shows, with a limited number of reads; `facts` defines the types of the results. Caches
  what was read of a cluster, for a limited time. The name of each fault code, and the number of GPUs of each instance
  type
- `pages`: finds the page for a path, and builds the response with an entity tag. The response to a request, and the
  security headers
- `html`: renders templates, escapes values, and makes control characters visible. Style sheet and script, under names
  that contain their hash
- `report`: a page as one file that can be opened from disk

`templates` contains the HTML, `assets` the style sheet and the script. `faultbridge.serve.presentation` decides what a
page shows. `faultbridge.serve.entrypoints.console` serves the pages. Tests: tests/console.
"""
