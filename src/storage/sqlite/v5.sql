-- Version 5: the reason of a decision is JSON, an object with its numbers; of older decisions a string, their sentence.

UPDATE decision SET reason = json_quote(reason) WHERE reason IS NOT NULL;
