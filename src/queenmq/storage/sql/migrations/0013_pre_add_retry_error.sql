-- What the last consumer said of the message that is to be redelivered (retry_seq). Only of interest while
-- retry_seq is beyond the cursor: whoever else ends a retry leaves the text behind.
ALTER TABLE queen.partition_consumers ADD COLUMN retry_error text;
