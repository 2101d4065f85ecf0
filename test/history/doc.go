// Package history checks the answers of a store to concurrent callers, while its server is killed and its connections are
// cut: they must be the rule's answers to the same requests in some serial order. Processes record requests and
// answers (Record), and the check (Check) searches for that order with porcupine; a request that was not answered may
// or may not have been carried out. A store that forgets everything in a crash must forget nothing at other times.
package history
