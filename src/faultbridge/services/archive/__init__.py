"""The record beyond the table: written as it is published, sealed daily, anchored hourly, read without the stack."""
