# Wraps the packaged template, as `faultbridge deploy` does: uploads it with its archives, and creates the stack.
# The names of the archives contain a hash of their content, so a new version is a new object.
locals {
  index = jsondecode(file("${var.packaged}/index.json"))
  files = toset(local.index.artifacts)
  body  = "${var.packaged}/template.json"
}

resource "aws_s3_object" "artifact" {
  for_each = local.files
  bucket   = var.bucket
  key      = "faultbridge/${each.value}"
  source   = "${var.packaged}/${each.value}"
}

resource "aws_s3_object" "template" {
  bucket = var.bucket
  key    = "faultbridge/template-${substr(filesha256(local.body), 0, 16)}.json"
  source = local.body
}

resource "aws_cloudformation_stack" "this" {
  name         = var.name
  template_url = "https://${var.bucket}.s3.amazonaws.com/${aws_s3_object.template.key}"
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
  parameters = merge(var.parameters, {
    ArtifactBucket = var.bucket
    PythonRuntime  = "python${local.index.python}"
  })
  depends_on = [aws_s3_object.artifact]

  # The table and the buckets of the record stay when the stack is deleted; see docs/deploy.md, Remove.
  lifecycle {
    prevent_destroy = true
  }
}
