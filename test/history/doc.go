// Package history checks that whatever a store answered to many callers at once, while its server was killed and its
// connections cut, is what the rule answers to the same requests in some serial order. Processes record what they asked and
// were answered (Record), and the check (Check) looks for that order with porcupine; a request that was not answered may
// have been carried out or not. A store that forgets everything at a crash is checked for forgetting nothing else.
package history
