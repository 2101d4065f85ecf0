package storetest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/store"
)

func openReference(_ testing.TB, clock *Clock) store.Store { return NewReference(clock) }

func TestReferencePasses(t *testing.T) { Run(t, openReference) }

func TestAnotherSeedPasses(t *testing.T) { RunWith(t, openReference, Options{Seed: 20_260_102}) }

// bug is a store with a bug, and the check that must find it.
type bug struct {
	name  string
	check string
	open  Open
}

// workerLine matches a request of a race in a failure message.
var workerLine = regexp.MustCompile(`(?m)^ +worker \d+: (take|take-up-to|peek|give-back|settle) \[`)

// TestBugsAreFound plants every bug and requires that its check fails: a check that cannot fail is a defect.
func TestBugsAreFound(t *testing.T) {
	for _, b := range allBugs() {
		t.Run(b.check+"/"+strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
			s := &suite{open: b.open, short: testing.Short(), timeout: 5 * time.Second}
			if strings.HasPrefix(b.name, "stuck") {
				s.timeout = 50 * time.Millisecond // these bugs are found by a timeout
			}
			r := record(t, func(t testing.TB) { checkNamed(b.check).run(t, s) })
			if !r.Failed() {
				t.Fatalf("a store that %s passes the check %s", b.name, b.check)
			}
			t.Log(r.text())
			if strings.HasPrefix(b.check, "race") && !strings.HasPrefix(b.name, "stuck") && !workerLine.MatchString(r.text()) {
				t.Errorf("the failure message does not contain the last requests")
			}
		})
	}
}

func TestEveryCheckHasABug(t *testing.T) {
	for _, c := range checks {
		if !slices.ContainsFunc(allBugs(), func(b bug) bool { return b.check == c.name }) {
			t.Errorf("no planted bug shows that the check %s can fail", c.name)
		}
	}
}

func allBugs() []bug {
	return slices.Concat(traitBugs(), ruleBugs(), clockBugs(), batchBugs(), singleTakerBugs(), severalBugs(), giveBackBugs(),
		readOnlyBugs(), expiryBugs(), keyBugs(), stateBugs(), errorBugs(), raceBugs(), raceSeveralBugs(), limiterBugs(),
		declareBugs(), settleBugs(), slotBugs(), calendarBugs(), otherLimitBugs(), defaultBugs(), holdsBugs(), onceBugs(), inspectBugs())
}

func checkNamed(name string) check {
	return checks[slices.IndexFunc(checks, func(c check) bool { return c.name == name })]
}
