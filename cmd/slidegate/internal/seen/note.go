package seen

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"github.com/slidegate/slidegate/store"
)

// note is what one instance posts for the others.
type note struct {
	Instance Instance        `json:"i"`
	Turn     int64           `json:"n"` // increases with every note, so that one that is read twice is known
	Policies few[notePolicy] `json:"p,omitempty"`
	Keys     few[noteKey]    `json:"k,omitempty"`
	Cut      bool            `json:"c,omitempty"` // it has seen more keys than these
	// Marks has the Turn of each mark that it had read before, by instance.
	Marks map[string]int64 `json:"m,omitempty"`
}

// notePolicy is what an instance says of one policy.
type notePolicy struct {
	Name      string       `json:"n"`
	Shadow    bool         `json:"s,omitempty"`
	Limits    []string     `json:"l,omitempty"`
	Varies    bool         `json:"v,omitempty"`
	Minutes   []noteMinute `json:"m,omitempty"`
	LeasesOut int64        `json:"u,omitempty"`
	HoldsOut  int64        `json:"h,omitempty"`
	Waiting   int64        `json:"w,omitempty"`
}

// noteMinute is a minute since 1970 with its counts: admitted, refused, refused in shadow mode, without the store.
type noteMinute [5]int64

// noteKey is what an instance says of one key.
type noteKey struct {
	Policy  int                `json:"p"` // index in note.Policies
	ID      string             `json:"i"`
	Masked  string             `json:"m"`
	Counts  [len(Windows)]Pair `json:"n"`
	AtLeast [len(Windows)]bool `json:"a"`
	By      string             `json:"b,omitempty"`
	Limit   string             `json:"l,omitempty"` // that refused it last
	Causes  few[noteCause]     `json:"e,omitempty"` // if there are several
	Plan    string             `json:"q,omitempty"`
	Cut     bool               `json:"x,omitempty"` // see IsCut
	Near    string             `json:"r,omitempty"` // that it is near to
	Share   float64            `json:"s,omitempty"`
	NearIn  [len(Windows)]bool `json:"w"` // the windows in which it was near, and not refused
	Shadow  bool               `json:"h,omitempty"`
	Last    int64              `json:"t"` // in seconds since 1970
	Routes  []string           `json:"o,omitempty"`
}

// look is what an instance posts while someone is looking at it.
type look struct {
	Turn int64 `json:"n"` // increases with every mark
	// Keys are those that it shows, so that every instance adds what it knows of them: the sums are then exact.
	Keys []keyName `json:"k,omitempty"`
	// Asks are keys whose text a person wants.
	Asks []keyName `json:"a,omitempty"`
}

// keyName names a key without its text.
type keyName struct {
	Policy string `json:"p"`
	ID     string `json:"i"`
}

// answer has the keys that were asked for.
type answer struct {
	Keys []answerKey `json:"k"`
}

type answerKey struct {
	keyName
	Key []byte `json:"k"` // any bytes
}

// Bounds of what is read from the store.
const (
	maxNoteText   = 256 << 10 // bytes, uncompressed
	maxNoteKeys   = 2000
	maxLookKeys   = 1000
	maxAsks       = 64
	maxName       = 256 // bytes of a name
	maxLimitTexts = 16
	maxCount      = 1 << 53
)

// encode returns a value as a note, or an error if it is too large for one.
func encode(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if len(text) > maxNoteText {
		return nil, errTooLarge
	}
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestSpeed) // the level is valid
	_, _ = w.Write(text)                         // to memory
	_ = w.Close()
	if b.Len() > store.MaxNote {
		return nil, errTooLarge
	}
	return b.Bytes(), nil
}

var errTooLarge = errors.New("seen: the note is too large")

// decode parses a note into a value.
func decode(text []byte, value any) error {
	if len(text) > store.MaxNote {
		return errTooLarge
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(text)), maxNoteText+1))
	if err != nil {
		return err
	}
	if len(plain) > maxNoteText {
		return errTooLarge
	}
	return json.Unmarshal(plain, value)
}

var errInvalid = errors.New("seen: invalid note")

// few is a list in a note. It is read one by one, since an element of three bytes may take a hundred times as much in memory.
type few[T any] []T

// maxFew is more than any list of a note has.
const maxFew = max(maxNoteKeys, maxPolicies+1)

// UnmarshalJSON reads the list, as far as it has not too many elements.
func (f *few[T]) UnmarshalJSON(text []byte) error {
	from := json.NewDecoder(bytes.NewReader(text))
	if start, err := from.Token(); err != nil || start == nil {
		return err
	} else if start != json.Delim('[') {
		return errInvalid
	}
	for from.More() {
		if len(*f) == maxFew {
			return errInvalid
		}
		var one T
		if err := from.Decode(&one); err != nil {
			return err
		}
		*f = append(*f, one)
	}
	return nil
}

// encodeNote returns a note with as many keys as fit.
func encodeNote(n *note) ([]byte, error) {
	short := *n
	for {
		text, err := encode(&short)
		if !errors.Is(err, errTooLarge) || len(short.Keys) == 0 {
			return text, err
		}
		short.Keys, short.Cut = short.Keys[:len(short.Keys)/2], true
	}
}

// encodeHour returns the counts of a note, over as many notes as it takes.
func encodeHour(n *note) (texts [][]byte) {
	part := *n
	part.Keys = nil
	text, err := encode(&part)
	switch {
	case err == nil:
		return append(texts, text)
	case len(n.Policies) < 2:
		return nil
	}
	half := len(n.Policies) / 2
	part.Policies = n.Policies[:half]
	texts = encodeHour(&part)
	part.Policies = n.Policies[half:]
	return append(texts, encodeHour(&part)...)
}

// decodeNote parses a note that an author posted. Anyone who may write to the store can have written it, so all texts are made printable, and
// a note with numbers that no instance has is rejected.
func decodeNote(author string, text []byte, now time.Time) (*note, error) {
	n := &note{}
	if err := decode(text, n); err != nil {
		return nil, err
	}
	if len(n.Keys) > maxNoteKeys || len(n.Policies) > maxPolicies+1 || len(n.Marks) > store.MaxNotes {
		return nil, errInvalid
	}
	n.Instance.clean(author)
	for i := range n.Policies {
		if !n.Policies[i].clean(minuteOf(now)) {
			return nil, errInvalid
		}
	}
	for i := range n.Keys {
		if k := &n.Keys[i]; k.Policy < 0 || k.Policy >= len(n.Policies) || !k.clean() {
			return nil, errInvalid
		}
	}
	return n, nil
}

func (i *Instance) clean(author string) {
	i.ID, _, _ = strings.Cut(author, "-")
	i.Name, i.Version, i.Config = printable(i.Name, maxName), printable(i.Version, maxName), printable(i.Config, maxName)
	i.Health, i.Store = printable(i.Health, maxName), printable(i.Store, maxName)
	i.RestartNeeded = cleanTexts(i.RestartNeeded, maxLimitTexts)
	if i.Started.Year() < 1970 || i.Started.Year() > 9999 { // JSON has no others
		i.Started = time.Time{}
	}
	i.Latency.P50, i.Latency.P99 = finite(i.Latency.P50), finite(i.Latency.P99)
	i.LeasesOut, i.HoldsOut = min(max(i.LeasesOut, 0), maxCount), min(max(i.HoldsOut, 0), maxCount)
}

func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		return 0
	}
	return min(f, 1e9)
}

func cleanTexts(texts []string, most int) []string {
	texts = texts[:min(len(texts), most)]
	for i := range texts {
		texts[i] = printable(texts[i], maxName)
	}
	return texts
}

// clean makes the texts printable, and reports whether the numbers are possible. Minutes outside the hour are removed.
func (p *notePolicy) clean(now int64) bool {
	p.Name, p.Limits = printable(p.Name, maxName), cleanTexts(p.Limits, maxLimitTexts)
	p.LeasesOut, p.HoldsOut = min(max(p.LeasesOut, 0), maxCount), min(max(p.HoldsOut, 0), maxCount)
	p.Waiting = min(max(p.Waiting, 0), maxCount)
	if len(p.Minutes) > 2*hour {
		return false
	}
	kept := p.Minutes[:0]
	for _, m := range p.Minutes {
		for _, n := range m {
			if !isCount(n) {
				return false
			}
		}
		if m[0] >= now-hour && m[0] <= now+1 {
			kept = append(kept, m)
		}
	}
	p.Minutes = kept
	return true
}

func isCount(n int64) bool { return n >= 0 && n <= maxCount }

func (k *noteKey) clean() bool {
	if !isID(k.ID) || !(k.Share >= 0 && k.Share <= 1) || k.Last < 0 || k.Last > 1<<37 {
		return false
	}
	for _, n := range k.Counts {
		if !isCount(n[0]) || !isCount(n[1]) {
			return false
		}
	}
	for i := range k.Causes {
		c := &k.Causes[i]
		if i > maxCauses || !isCount(c.Refused[0]) || !isCount(c.Refused[1]) || !isCount(c.Refused[2]) {
			return false
		}
		c.By, c.Limit = printable(c.By, 16), printable(c.Limit, maxName)
	}
	k.Masked, k.By, k.Plan = printable(k.Masked, 16), printable(k.By, 16), printable(k.Plan, maxName)
	k.Limit, k.Near, k.Routes = printable(k.Limit, maxName), printable(k.Near, maxName), cleanTexts(k.Routes, maxRoutes)
	return true
}

// decodeLook parses a look. What is wrong with it is left out.
func decodeLook(text []byte) (l look) {
	if decode(text, &l) != nil {
		return look{}
	}
	l.Keys, l.Asks = l.Keys[:min(len(l.Keys), maxLookKeys)], l.Asks[:min(len(l.Asks), maxAsks)]
	return l
}
