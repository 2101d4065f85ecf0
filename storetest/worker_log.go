package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// keptRequests is how many of the last requests a failure message contains.
const keptRequests = 8

// workerLog holds the last requests of one worker of a race. It belongs to that worker alone, so that logging does not
// synchronize the workers, and hides nothing from the race detector.
type workerLog struct {
	worker int
	last   []loggedRequest
}

// loggedRequest is one request of a worker, and its outcome.
type loggedRequest struct {
	when    time.Time
	worker  int
	op      rule.Op
	group   string
	charges []store.Charge
	answers []rule.Answer
	err     error
}

type workerLogKey struct{}

// logTo returns a context whose requests are logged to log.
func logTo(ctx context.Context, log *workerLog) context.Context {
	return context.WithValue(ctx, workerLogKey{}, log)
}

// logRequest logs a request to the log of its worker, if there is one.
func logRequest(ctx context.Context, op rule.Op, group string, charges []store.Charge, answers []rule.Answer, err error) {
	log, ok := ctx.Value(workerLogKey{}).(*workerLog)
	if !ok {
		return
	}
	if len(log.last) == keptRequests {
		log.last = slices.Delete(log.last, 0, 1)
	}
	log.last = append(log.last, loggedRequest{time.Now(), log.worker, op, group, slices.Clone(charges), slices.Clone(answers), err})
}

// lastRequests returns the last requests of all workers as a failure message shows them, the earliest first.
func lastRequests(logs []workerLog) []string {
	var all []loggedRequest
	for i := range logs {
		all = append(all, logs[i].last...)
	}
	slices.SortStableFunc(all, func(a, b loggedRequest) int { return a.when.Compare(b.when) })
	all = all[max(0, len(all)-keptRequests):]
	lines := make([]string, len(all))
	for i := range all {
		lines[i] = all[i].String()
	}
	return lines
}

// String describes a request and its outcome.
func (l *loggedRequest) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker %d: %s:", l.worker, describe(l.op, l.group, l.charges))
	if l.err != nil {
		fmt.Fprintf(&b, " %v", l.err)
		return b.String()
	}
	for _, a := range l.answers {
		fmt.Fprintf(&b, " [at %d, allowed %v, %d granted, %d remain]", a.At, a.Allowed, a.Granted, a.Remaining)
	}
	return b.String()
}
