package worstcase

import (
	"sync"
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// foundDefault is the content of the table of the default.
var foundDefault = sync.OnceValue(func() []DefaultFinding { return FindDefault(effort(4, 60)) })

// No window ever holds more than the quota by default, whatever the quota and the window are and whether the quota changes, and an
// obedient client gets almost all of it.
func TestDefaultIsAHardCap(t *testing.T) {
	tries := 0
	for _, f := range foundDefault() {
		l := f.Limit
		tries += f.Most.Tries + f.Changed.Tries
		if f.Most.Most != l.Quota {
			t.Errorf("%d in %v: found %d in a window, want the quota: %s", l.Quota, l.Window.Duration(), f.Most.Most, f.Most.Schedule)
		}
		if f.Changed.Most != l.Quota {
			t.Errorf("%d in %v, with changes to half: found %d in a window, want the quota: %s",
				l.Quota, l.Window.Duration(), f.Changed.Most, f.Changed.Schedule)
		}
		if f.Share < 0.98 || f.Share > 1 || !l.StartsInParts(0) && f.Share != 1 {
			t.Errorf("%d in %v: an obedient client gets %.4f of it, want 0.98 of it, and all of a log", l.Quota, l.Window.Duration(), f.Share)
		}
	}
	t.Logf("%d schedules were tried", tries)
}

// A client that sends at exactly the pace of its quota gets 60 of 61 of its requests admitted, 50 of 51 with windows of a second. The
// first windows, in which a full quota is free, are left out.
func TestDefaultAtThePaceOfTheQuota(t *testing.T) {
	for _, f := range foundDefault() {
		l, parts := f.Limit, int64(f.Limit.Segments)
		if l.Window%rule.Micros(l.Quota) != 0 {
			continue
		}
		var s rule.State
		var admitted, sent int64
		every, windows := l.Window/rule.Micros(l.Quota), rule.Micros(l.Parts())
		for now := epoch + l.Window/3; now < epoch+l.Window/3+(3+windows)*l.Window; now += every {
			answer, _ := l.TakeOne(&s, now, 1)
			if now >= epoch+l.Window/3+3*l.Window {
				sent++
				admitted += answer.Granted
			}
		}
		want := float64(parts) / float64(parts+1)
		if !l.StartsInParts(0) {
			want = 1
		}
		if share := float64(admitted) / float64(sent); share < want-1/float64(l.Quota) { // where the count begins and ends
			t.Errorf("%d in %v: got %.5f at the quota's pace, want %.4f", l.Quota, l.Window.Duration(), share, want)
		}
	}
}

// The search is not blind: it finds a state that is forgotten when the quota crosses 100, as it was with an address for each form.
func TestDefaultSearchFindsAnAddressForEachForm(t *testing.T) {
	l, other := defaultLimit(101, defaultWindows[2]), defaultLimit(100, defaultWindows[2])
	p := &player{limit: l, other: &other, apart: true}
	if f := p.search(MostIn(l.Window), effort(4, 60)); f.Most <= l.Quota {
		t.Errorf("found %d of %d in a window although the two quotas count apart", f.Most, l.Quota)
	}
}
