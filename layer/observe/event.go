package observe

import (
	"sync"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Event describes one request to OnDecision. Everything that it refers to belongs to the caller: it is valid only
// during the call to OnDecision and must not be changed. Copy what is to be kept.
//
// It contains no key, unless Options.Keys is set: it may be logged.
type Event struct {
	Op rule.Op
	// Limits are the limits of the request: their names, or their texts where they have none.
	Limits []string
	// Answers has the answer of each limit; it is empty if there was an error.
	Answers []rule.Answer
	// Duration is how long the store took, for all requests of the batch together.
	Duration time.Duration
	// Err is not nil if the request has no answer. Its text is the store's, which must not contain a key.
	Err error
	// Request is the request with its keys if Options.Keys is set, otherwise nil.
	Request *store.Request
}

var labelLists = sync.Pool{New: func() any { return new([]string) }}

// callOnDecision calls OnDecision for each request of a batch.
func (s *Store) callOnDecision(batch []store.Request, took time.Duration) {
	list := labelLists.Get().(*[]string)
	for i := range batch {
		request := &batch[i]
		labels := (*list)[:0]
		for j := range request.Charges {
			labels = append(labels, request.Charges[j].Limit.Label())
		}
		*list = labels
		e := Event{Op: request.Op, Limits: labels, Duration: took, Err: request.Err}
		if e.Err == nil {
			e.Answers = request.Answers
		}
		if s.opts.Keys {
			e.Request = request
		}
		s.opts.OnDecision(e)
	}
	clear(*list)
	labelLists.Put(list)
}
