// Package jsonscan extracts members of JSON objects, such as the lines of a log, in one pass: it validates the whole
// object, copies only strings with escapes, and does not allocate once its buffers have grown. On a line of an access log
// it takes a third of the time of gjson with validation, and a fifth of the time of encoding/json.
package jsonscan
