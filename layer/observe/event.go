package observe

import (
	"sync"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Event is what OnDecision is told about one request. Everything it refers to is the caller's: it is valid during the call
// of OnDecision only and must not be changed. Who keeps something of it keeps a copy.
//
// It contains no key, unless Options.Keys is set: it may be printed.
type Event struct {
	Op rule.Op
	// Limits are the limits that the request faced: their names, or their texts where they have none.
	Limits []string
	// Answers are what each of them said; none if there was an error.
	Answers []rule.Answer
	// Duration is how long the store took, for all requests of the batch together.
	Duration time.Duration
	// Err is not nil if the request has no answer. Its text is the store's, in which a key must not be.
	Err error
	// Request is the request with its keys, if Options.Keys is set, else nil.
	Request *store.Request
}

var labelLists = sync.Pool{New: func() any { return new([]string) }}

// tell tells OnDecision about each request of a batch.
func (s *Store) tell(batch []store.Request, took time.Duration) {
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
