package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
)

// topSources are the services that are asked.
type topSources []*topSource

// topSource is one of them.
type topSource struct {
	*client
	window string
	keys   map[string]string // texts of keys that were fetched, by policy and ID
}

// topList is what all of them have seen.
type topList struct {
	Scope     string          `json:"scope"`
	Why       string          `json:"why"`
	Instances []seen.Instance `json:"instances"`
	Keys      []topKey        `json:"keys"` // the most refused first
	Nearest   []topKey        `json:"nearest"`
	Missing   []string        `json:"missing,omitempty"` // errors of the services that did not answer

	window string // for people
	alone  []alone
	asked  int // services that answered, those that show one another once
}

// alone is an instance that shows only itself, and why.
type alone struct{ instance, why string }

// topKey is one key with its text, which is masked only if no instance knows it any more.
type topKey struct {
	Policy   string    `json:"policy"`
	Key      string    `json:"key"`
	Rule     string    `json:"rule,omitempty"` // the Envoy rule that it used most
	Refused  int64     `json:"refused"`
	Admitted int64     `json:"admitted"`
	AtLeast  bool      `json:"at_least"`
	By       string    `json:"by"`
	Limit    string    `json:"limit"`
	Share    float64   `json:"share"`
	Shadow   bool      `json:"shadow"`
	Last     time.Time `json:"last"`
	Routes   []string  `json:"routes"`

	masked bool
}

func (k *topKey) name() string { return k.Policy + "\x00" + k.Key }

// text returns the key as commands accept it.
func (k *topKey) text() string {
	if k.masked {
		return k.Key
	}
	return strconv.Quote(k.Key)
}

// reason returns what refused the key: the limit if one did.
func (k *topKey) reason() string {
	if k.Limit != "" {
		return k.Limit
	}
	return strings.ReplaceAll(k.By, "_", " ")
}

// scope says which instances are shown.
func (l *topList) scope() string {
	var alive []string
	for _, i := range l.Instances {
		if i.Alive {
			alive = append(alive, i.Name)
		}
	}
	text := strconv.Itoa(len(alive)) + " instances"
	if len(alive) == 1 {
		text = "1 instance, " + alive[0]
	}
	if gone := len(l.Instances) - len(alive); gone > 0 {
		text += fmt.Sprintf(", and %d gone", gone)
	}
	if others := func(a alone) bool { return a.why != l.Why }; l.asked == len(l.alone) && !slices.ContainsFunc(l.alone, others) {
		return text + ": " + l.Why
	}
	for _, one := range l.alone {
		text += "; " + one.instance + " shows only itself: " + one.why
	}
	return text
}

// selfOf returns the name of the instance that a document is from.
func selfOf(d *seen.Document) string {
	for _, i := range d.Instances {
		if i.ID == d.Self {
			return i.Name
		}
	}
	return d.Self
}

// open makes a client for each service.
func (t *topCommand) open(window string) (all topSources, err error) {
	for _, server := range t.Server {
		c, err := newClient("--server", server, t.Token, t.serverTLS)
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all = append(all, &topSource{c, window, map[string]string{}})
	}
	return all, nil
}

func (all topSources) close() error {
	for _, one := range all {
		one.http.CloseIdleConnections()
	}
	return nil
}

// list asks all services, and merges what those say that do not show one another. Missing are the errors of those that do not answer; if
// none does, they are the error.
func (all topSources) list(ctx context.Context, n int) (list *topList, missing []error, err error) {
	documents, errs := make([]seen.Document, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	for i, one := range all {
		asking.Go(func() { _, errs[i] = one.ask(ctx, http.MethodGet, fmt.Sprintf("/v1/seen?n=%d", n), nil, &documents[i]) })
	}
	asking.Wait()
	if !slices.Contains(errs, nil) {
		return nil, nil, errors.Join(errs...)
	}
	list = &topList{Scope: "all", Instances: []seen.Instance{}, window: map[string]string{"1": "minute", "5": "5 minutes", "60": "hour"}[all[0].window]}
	refused, nearest := topKeys{}, topKeys{}
	for i := range documents {
		d := &documents[i]
		if errs[i] != nil {
			missing = append(missing, errs[i])
			continue
		}
		if slices.ContainsFunc(list.Instances, func(known seen.Instance) bool { return known.ID == d.Self }) {
			continue // its store is shared with one that has been added
		}
		list.Instances = append(list.Instances, d.Instances...)
		if list.asked++; d.Scope != "all" {
			list.Scope, list.Why = d.Scope, d.Why
			list.alone = append(list.alone, alone{selfOf(d), d.Why})
		}
		keys := d.Keys[all[i].window]
		texts := all[i].texts(ctx, slices.Concat(keys.Refused, keys.Nearest))
		refused.add(keys.Refused, texts)
		nearest.add(keys.Nearest, texts)
	}
	list.Keys = refused.sorted(n, func(a, b *topKey) int { return cmp.Compare(b.Refused, a.Refused) })
	list.Nearest = nearest.sorted(n, func(a, b *topKey) int { return cmp.Compare(b.Share, a.Share) })
	return list, missing, nil
}

// keysAtOnce is how many texts of keys are fetched at the same time. Another instance needs a second for one.
const keysAtOnce = 16

// texts fetches the texts of keys; those that no instance knows any more are missing.
func (s *topSource) texts(ctx context.Context, keys []seen.Key) map[string]string {
	var fetching sync.WaitGroup
	var mu sync.Mutex
	places := make(chan struct{}, keysAtOnce)
	for _, k := range keys {
		name := k.Policy + "\x00" + k.ID
		if _, known := s.keys[name]; known {
			continue
		}
		fetching.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			var got struct {
				Key    string
				Base64 []byte `json:"key_base64"`
			}
			if _, err := s.ask(ctx, http.MethodPost, "/v1/seen/key", map[string]string{"policy": k.Policy, "id": k.ID}, &got); err != nil {
				return // it is shown masked
			}
			if got.Base64 != nil {
				got.Key = string(got.Base64)
			}
			mu.Lock()
			defer mu.Unlock()
			s.keys[name] = got.Key
		})
	}
	fetching.Wait()
	return s.keys
}

// topKeys are keys by policy and text.
type topKeys map[string]*topKey

// add adds keys, and adds up the counts of those that another service has seen too.
func (t topKeys) add(keys []seen.Key, texts map[string]string) {
	for _, k := range keys {
		text, known := texts[k.Policy+"\x00"+k.ID]
		one := &topKey{
			Policy: k.Policy, Key: text, Refused: k.Refused, Admitted: k.Admitted, AtLeast: k.AtLeast, By: k.By, Limit: k.Limit, Share: k.Share,
			Shadow: k.Shadow, Last: k.Last, Routes: k.Routes, masked: !known,
		}
		if !known {
			one.Key = k.Masked
		}
		if strings.HasPrefix(k.Policy, "envoy:") && len(k.Routes) > 0 {
			one.Rule = k.Routes[0]
		}
		name := one.name()
		if !known {
			name += "\x00" + k.ID
		}
		if was := t[name]; was != nil {
			one.Refused, one.Admitted, one.AtLeast, one.Share = one.Refused+was.Refused, one.Admitted+was.Admitted, one.AtLeast || was.AtLeast, max(one.Share, was.Share)
		}
		t[name] = one
	}
}

// sorted returns the first n keys in an order.
func (t topKeys) sorted(n int, compare func(a, b *topKey) int) []topKey {
	all := []topKey{}
	for _, k := range t {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b topKey) int {
		return cmp.Or(compare(&a, &b), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Key, b.Key))
	})
	return all[:min(len(all), n)]
}
