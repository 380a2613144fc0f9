"""Console: the web pages of the console, and report files, as HTML.

Read in this order:

- `facts`: reads the `page_documents` of one page, with a limited number of reads
- `kept`: caches what was read of a cluster
- `catalog_names`: names of fault codes, and GPU numbers
- `pages`: the pages by path, from a request to content with an entity tag
- `html`: the template environment; it escapes every value and makes control characters visible
- `assets`: style sheet and script, under names that contain their hash
- `content`: the response to a request, and the security headers
- `report`: a page as one file that can be opened from disk

`templates` contains the HTML, `assets` the style sheet and the script. `faultbridge.presentation` decides what a page
shows. `faultbridge.entrypoints.console` serves the pages. Tests: tests/console.
"""
