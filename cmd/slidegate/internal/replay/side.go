package replay

import (
	"runtime"
	"sync"
)

// side processes batches in parallel with the main run, on the available cores.
type side struct {
	work []chan []request
	busy sync.WaitGroup
}

func newSide(tasks []func([]request)) *side {
	s := &side{}
	workers := min(len(tasks), max(1, runtime.GOMAXPROCS(0)))
	for w := range workers {
		work := make(chan []request)
		s.work = append(s.work, work)
		go func() {
			for requests := range work {
				for i := w; i < len(tasks); i += workers {
					tasks[i](requests)
				}
				s.busy.Done()
			}
		}()
	}
	return s
}

// begin starts processing a batch, and wait waits until it is done.
func (s *side) begin(requests []request) {
	s.busy.Add(len(s.work))
	for _, work := range s.work {
		work <- requests
	}
}

func (s *side) wait() { s.busy.Wait() }

func (s *side) close() {
	for _, work := range s.work {
		close(work)
	}
}
