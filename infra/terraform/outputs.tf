output "outputs" {
  description = "Outputs of the stack, such as RawRecordsQueueUrl and RawBucketName."
  value       = aws_cloudformation_stack.this.outputs
}
