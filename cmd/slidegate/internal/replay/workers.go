package replay

import (
	"runtime"
	"sync"
)

// workers process batches in parallel with the main run, on the available cores.
type workers struct {
	work []chan []request
	busy sync.WaitGroup
}

func newWorkers(tasks []func([]request)) *workers {
	s := &workers{}
	count := min(len(tasks), max(1, runtime.GOMAXPROCS(0)))
	for w := range count {
		work := make(chan []request)
		s.work = append(s.work, work)
		go func() {
			for requests := range work {
				for i := w; i < len(tasks); i += count {
					tasks[i](requests)
				}
				s.busy.Done()
			}
		}()
	}
	return s
}

// begin starts processing a batch, and wait waits until it is done.
func (s *workers) begin(requests []request) {
	s.busy.Add(len(s.work))
	for _, work := range s.work {
		work <- requests
	}
}

func (s *workers) wait() { s.busy.Wait() }

func (s *workers) close() {
	for _, work := range s.work {
		close(work)
	}
}
