variable "name" {
  description = "Name of the stack, at most 24 characters."
  type        = string
  default     = "faultbridge"
  validation {
    condition     = length(var.name) <= 24
    error_message = "AWS shortens the names of rules of a longer stack name, and the dead-letter queue then refuses their events."
  }
}

variable "packaged" {
  description = "Folder of the packaged template: `template` of a release, or what `make archives` writes."
  type        = string
}

variable "bucket" {
  description = "Existing bucket in the same region for the template and the archives."
  type        = string
}

variable "parameters" {
  description = "Parameters of the template; docs/deploy.md lists them."
  type        = map(string)
  default     = {}
}
