package config

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/policy"
)

// FindClass returns a function that finds the class of a request: the first of Classes that matches the value of ClassBy or, if that is
// the key, the key as requests have it. Other requests are of the class policy.DefaultClass. It returns nil if there are no classes. The
// function is safe for concurrent use.
func (p *Policy) FindClass(groups clientip.Grouping) func(value string) (class string) {
	if len(p.Classes) == 0 {
		return nil
	}
	names := make([]string, len(p.Classes))
	for i, class := range p.Classes {
		names[i] = class.Name
	}
	find := newFinder(names).find
	if p.ClassByKey() {
		find = findKey(p.Key.Form(groups), names)
	}
	return func(value string) string {
		if index, found := find(value); found {
			return names[index]
		}
		return policy.DefaultClass
	}
}

// ClassByKey reports whether the key of a request determines its class.
func (p *Policy) ClassByKey() bool { return len(p.Classes) > 0 && p.ClassBy.Kind == fields.Key }

// findKey returns a function that finds the first of some keys and patterns that matches a key.
func findKey(form keyform.Form, names []string) func(key string) (index int, found bool) {
	var table keyform.Table[int]
	for i, name := range names {
		if name == policy.DefaultClass {
			continue
		}
		if read, err := keyform.Read(form, name, true); err == nil { // Parse rejects it otherwise
			table.Add(read, i)
		}
	}
	return func(key string) (first int, found bool) {
		first = len(names)
		table.Each(key, func(i, _ int) bool {
			first = min(first, i)
			return true
		})
		return first, first < len(names)
	}
}

// httpClass returns the class function for httplimit; nil if there are no classes.
func (p *Policy) httpClass(from *source, key httplimit.Key) func(*http.Request) string {
	find := p.FindClass(from.client.Grouping())
	switch by := p.ClassBy; {
	case find == nil:
		return nil
	case p.ClassByKey():
		return func(r *http.Request) string {
			text, _ := key.Of(r) // keys of a file do not fail
			return find(text)
		}
	default:
		return func(r *http.Request) string { return find(string(from.valueOf(by, r))) }
	}
}

// classes reads the classes of a policy. Their names are not shown in errors, since they may be keys.
func (r *reader) classes(e yamlfile.Field) (classes []policy.Class) {
	if !r.isMapping(e, "classes: must be a mapping of names to percentages, not %s; write {critical: 100%%, default: 90%%}, say") {
		return nil
	}
	var seen matches
	patterns := 0
	items := r.mapping(e.Value, "", nil)
	for _, item := range items {
		if item.Value == nil {
			continue
		}
		percent, ok := r.percent(item)
		if ok && r.checkChoice("class", &seen, &patterns, item) {
			classes = append(classes, policy.Class{Name: item.Name, Percent: percent})
		}
	}
	if !slices.ContainsFunc(items, func(item yamlfile.Field) bool { return item.Name == policy.DefaultClass }) {
		r.Problems.Addf(e.ValueAt(), "classes: has no default; add default: 90%%, say, for requests that name no class")
	}
	return classes
}

// percent reads a percentage.
func (r *reader) percent(item yamlfile.Field) (percent int, ok bool) {
	text, _, ok := yamlfile.Scalar(item.Value)
	if !ok {
		r.Problems.Addf(item.ValueAt(), "classes: must be a percentage such as 90%%, not %s", yamlfile.Describe(item.Value))
		return 0, false
	}
	digits, marked := strings.CutSuffix(text, "%")
	percent, err := strconv.Atoi(digits)
	if err != nil || !marked || percent < 1 || percent > 100 || strings.Trim(digits, "0123456789") != "" {
		r.Problems.Addf(item.ValueAt(), "classes: %s is not a percentage from 1%% to 100%%; write 90%%, say", errtext.Quote(text))
		return 0, false
	}
	return percent, true
}

// checkClasses checks that a policy has both or neither of class and classes, and nothing that classes exclude.
func (r *reader) checkClasses(p *Policy, given given) {
	by, classes := given["class"], given["classes"]
	switch {
	case by.Name != "" && classes.Name == "":
		r.Problems.Addf(by.At, "class: has no classes to choose from; add classes: {critical: 100%%, default: 90%%}, say")
	case by.Name == "" && classes.Name != "":
		r.Problems.Addf(classes.At, "classes: needs class, the field that contains the class of a request; add class: header:X-Class, say (%s)", choiceForms())
	}
	if classes.Name == "" {
		return
	}
	r.checkClassed(classes.At)
	if from := r.overridesFrom; from != nil {
		from.checkClassed(classes.At)
	}
	if e := given["penalty"]; p.Penalty > 0 {
		r.Problems.Addf(e.At, "penalty: a refusal of one class would keep the others out too; leave out penalty or classes")
	}
	if !p.ClassByKey() || classes.Value == nil {
		return
	}
	items, _ := r.Fields(classes.Value)
	for _, item := range items {
		if item.Name != policy.DefaultClass {
			r.namedKeys = append(r.namedKeys, namedKey{at: item.At, field: "classes", key: item.Name})
		}
	}
}

// checkClassed reports the limits of this file that cannot have classes; at is where the policy has them.
func (r *reader) checkClassed(at yamlfile.Position) {
	for _, own := range r.written {
		for i, limit := range own.limits {
			for _, option := range []struct {
				set  bool
				name string
				why  string
			}{
				{limit.Lease, "lease", "a server that leases units for one class would leave less to the others than they have"},
				{limit.CountRefused, "count_refused", "the refused requests of one class would use up what is left for the others"},
			} {
				if option.set {
					r.Problems.Addf(own.positions[i], "%s: the policy has classes on line %d, and %s; leave out one of them", option.name, at.Line, option.why)
				}
			}
		}
	}
}

// classes writes the classes of a policy, and where the class of a request is found.
func (w *formatter) classes(p *Policy) {
	if len(p.Classes) == 0 {
		return
	}
	w.text("class", p.ClassBy.String())
	w.mapping("classes", func() {
		for _, class := range p.Classes {
			w.linef("%s: %d%%", strconv.Quote(class.Name), class.Percent)
		}
	})
}

// largestShare returns the largest part of the limits that a class may use, in percent.
func (p *Policy) largestShare() int {
	if len(p.Classes) == 0 {
		return 100
	}
	return slices.MaxFunc(p.Classes, func(a, b policy.Class) int { return a.Percent - b.Percent }).Percent
}
