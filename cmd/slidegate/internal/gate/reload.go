package gate

import (
	"log/slog"
	"reflect"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/ruled"
)

// Reload replaces the policies with those of file, all or nothing: on an error, nothing changes. Counts are kept,
// except for limits whose shape (algorithm, window, segments, anchor) or name has changed. Such a limit has separate
// counts, which are empty unless it was in force within its window. The log lists what was added, removed and changed,
// and which limits do not continue the previous counts; it also says if nothing changed. The gate does not manage the
// store's address or timeout.
//
// A request in progress during a reload is decided by the policies it began with.
func (g *Gate) Reload(file *config.File) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	old := g.current.Load()
	next, err := g.build(file, old)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(old.file, file) {
		g.opts.Logger.Info("policies reloaded: nothing changed", slog.Int("policies", len(next.order)))
		return nil
	}
	next.prepare(g.store)
	if err := ruled.Apply(next.set, g.rulings()); err != nil {
		g.opts.Logger.Error("rulings cannot be applied; end them or change them", slog.Any("error", err))
	}
	g.current.Store(next)
	old.release()
	g.logChanges(old, next)
	return nil
}

// Compare returns the names of the policies that differ between two files.
func Compare(old, next *config.File) (added, removed, changed []string) {
	before := make(map[string]*config.Policy, len(old.Policies))
	for i := range old.Policies {
		before[old.Policies[i].Name] = &old.Policies[i]
	}
	for i := range next.Policies {
		p := &next.Policies[i]
		switch was := before[p.Name]; {
		case was == nil:
			added = append(added, p.Name)
		case !reflect.DeepEqual(was, p):
			changed = append(changed, p.Name)
		}
		delete(before, p.Name)
	}
	for i := range old.Policies {
		if before[old.Policies[i].Name] != nil {
			removed = append(removed, old.Policies[i].Name)
		}
	}
	return added, removed, changed
}

// logChanges logs the differences between two snapshots.
func (g *Gate) logChanges(old, next *snapshot) {
	log := g.opts.Logger
	added, removed, changed := Compare(old.file, next.file)
	for _, other := range OtherCounts(old.file, next.file) {
		log.Info(otherCounts, slog.String("policy", other.Policy), slog.String("limit", other.Limit.String()))
	}
	log.Info("policies reloaded", slog.Any("added", added), slog.Any("removed", removed), slog.Any("changed", changed),
		slog.Int("policies", len(next.order)))
	before, now := &old.file.Service, &next.file.Service
	if !reflect.DeepEqual(before.JWT, now.JWT) {
		log.Info("request tokens are verified with new keys or rules from now on")
	}
}

// otherCounts also covers a limit that was removed and has returned: what it counted before still counts until its
// window has passed.
const otherCounts = "limit does not continue the previous counts, because its name or shape is new; it starts empty, or with what " +
	"it counted when it was last in force"

// OtherCount is a limit that does not continue the counts of another file.
type OtherCount struct {
	Policy string
	Limit  slidegate.Limit
}

// OtherCounts returns the limits that would not continue any counts if next replaced old, in policies that both files have: a limit
// with another name, window or algorithm, for example. Another quota, burst or overlap continues the counts.
func OtherCounts(old, next *config.File) (others []OtherCount) {
	before := map[string]*config.Policy{}
	for i := range old.Policies {
		before[old.Policies[i].Name] = &old.Policies[i]
	}
	for i := range next.Policies {
		p := &next.Policies[i]
		was := before[p.Name]
		if was == nil {
			continue
		}
		known := map[string]bool{}
		for limit := range was.AllLimits() {
			known[prefixOf(limit)] = true
		}
		for limit := range p.AllLimits() {
			if at := prefixOf(limit); !known[at] {
				known[at] = true
				others = append(others, OtherCount{p.Name, limit})
			}
		}
	}
	return others
}

// prefixOf returns where a limit of a policy counts.
func prefixOf(limit slidegate.Limit) string {
	bound, err := adapter.Bind("", limit)
	if err != nil {
		return "" // config.Parse rejects it
	}
	return bound.Prefix()
}
