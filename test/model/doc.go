// Package model is a slow and obvious model of what Slidegate promises, and random plays that compare it with a store through
// slidegate.Limiter. It is written from docs/guarantees.md and the rule's description, not from package rule: it shares no code with
// the rule, keeps plain lists and big integers, and never cuts a state to the limit that looks at it. A log is a list of the times of
// its units, a window a count for each part, a bucket the units that are missing, and slots a list of holders.
//
// Times in answers are compared by what they mean: at now + RetryAfter the model admits the cost, one microsecond earlier it does not.
package model
