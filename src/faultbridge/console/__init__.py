"""Console: the pages of the console and the report files, as HTML.

Read in this order:

- `facts`: reads the `page_documents` of one page, a bounded number of them
- `kept`: caches what was read of a cluster
- `catalog_names`: names of codes, and GPU numbers
- `pages`: the pages by path, from a request to content with an entity tag
- `html`: the template environment; every value is escaped, and control characters are shown
- `assets`: style sheet and script, under names with their hash
- `content`: what a request returns, and the security headers
- `report`: a page as one file that opens from disk

`templates` holds the HTML, `assets` the style sheet and the script. `faultbridge.presentation` decides what a page
shows. `faultbridge.entrypoints.console` serves the pages. Tests: tests/console.
"""
