"""One test for each known defect of stock pysyncobj: it happens there, and does not happen here."""
