package storetest

import (
	"context"
	"time"
)

// race runs workers all at once and waits for them. It fails the check when one returns an error, or when they do not
// come to an end.
func (p *pair) race(workers int, work func(ctx context.Context, worker int) error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), p.suite.patience)
	defer cancel()
	start, done := make(chan struct{}), make(chan error, workers)
	logs := make([]workerLog, workers)
	p.recent = []string{"of workers that have not come to an end, and are not known"}
	for worker := range workers {
		logs[worker].worker = worker
		go func() {
			<-start
			done <- work(logTo(ctx, &logs[worker]), worker)
		}()
	}
	close(start)
	stuck := time.NewTimer(2 * p.suite.patience)
	defer stuck.Stop()
	var first error
	for range workers {
		select {
		case err := <-done:
			if first == nil {
				first = err
			}
		case <-stuck.C:
			p.fatalf("the workers are stuck: the store neither answers nor heeds the context")
		}
	}
	p.recent = lastOf(logs)
	if first != nil {
		p.fatalf("a worker failed: %v", first)
	}
}

// soon runs something that has to come back whatever the store does.
func (p *pair) soon(what string, run func()) {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	stuck := time.NewTimer(p.suite.patience)
	defer stuck.Stop()
	select {
	case <-done:
	case <-stuck.C:
		p.fatalf("the store is stuck: %s", what)
	}
}
