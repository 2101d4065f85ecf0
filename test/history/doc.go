// Package history checks that whatever a store answered to concurrent callers, while its server was killed and its
// connections cut, is what the rule answers to the same requests in some serial order. Processes record requests and
// answers (Record), and the check (Check) searches for that order with porcupine; a request that was not answered may
// or may not have been carried out. A store that forgets everything at a crash is checked for forgetting nothing else.
package history
