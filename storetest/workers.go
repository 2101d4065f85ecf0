package storetest

import (
	"context"
	"time"
)

// race runs workers concurrently and waits for them. It fails the check if one returns an error, or if they do not finish.
func (p *pair) race(workers int, work func(ctx context.Context, worker int) error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), p.suite.timeout)
	defer cancel()
	start, done := make(chan struct{}), make(chan error, workers)
	logs := make([]workerLog, workers)
	p.recent = []string{"unknown, because the workers have not finished"}
	for worker := range workers {
		logs[worker].worker = worker
		go func() {
			<-start
			done <- work(logTo(ctx, &logs[worker]), worker)
		}()
	}
	close(start)
	stuck := time.NewTimer(2 * p.suite.timeout)
	defer stuck.Stop()
	var first error
	for range workers {
		select {
		case err := <-done:
			if first == nil {
				first = err
			}
		case <-stuck.C:
			p.fatalf("the workers are stuck: the store neither answers nor observes the context")
		}
	}
	p.recent = lastRequests(logs)
	if first != nil {
		p.fatalf("a worker failed: %v", first)
	}
}

// mustReturn runs a function that must return whatever the store does.
func (p *pair) mustReturn(what string, run func()) {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	stuck := time.NewTimer(p.suite.timeout)
	defer stuck.Stop()
	select {
	case <-done:
	case <-stuck.C:
		p.fatalf("the store is stuck: %s", what)
	}
}
