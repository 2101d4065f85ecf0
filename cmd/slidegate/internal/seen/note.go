package seen

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"io"
)

// note is what one instance writes for the others.
type note struct {
	Instance Instance        `json:"i"`
	Policies few[notePolicy] `json:"p,omitempty"`
	Keys     few[noteKey]    `json:"k,omitempty"`
	Cut      bool            `json:"c,omitempty"` // it has seen more keys than these
}

// notePolicy is what an instance says of one policy.
type notePolicy struct {
	Name      string       `json:"n"`
	Shadow    bool         `json:"s,omitempty"`
	Limits    []string     `json:"l,omitempty"`
	Varies    bool         `json:"v,omitempty"`
	Minutes   []noteMinute `json:"m,omitempty"` // of the hour, the latest last
	LeasesOut int64        `json:"u,omitempty"`
	HoldsOut  int64        `json:"h,omitempty"`
	Waiting   int64        `json:"w,omitempty"`
}

// noteMinute is a minute since 1970 with its counts: admitted, refused, refused in shadow mode, without the store.
type noteMinute [5]int64

// noteKey is what an instance says of one key.
type noteKey struct {
	Policy  int                `json:"p"` // index in note.Policies
	Key     []byte             `json:"k"` // as it is tracked; see shorten
	Counts  [len(Windows)]Pair `json:"n"`
	AtLeast [len(Windows)]bool `json:"a"`
	Causes  []noteCause        `json:"e,omitempty"`
	Plan    string             `json:"q,omitempty"`
	Near    string             `json:"r,omitempty"` // the limit that it is near to
	Share   float64            `json:"s,omitempty"`
	NearIn  [len(Windows)]bool `json:"w"` // the windows in which it was near, and not refused
	Last    int64              `json:"t"` // in seconds since 1970
	Routes  []string           `json:"o,omitempty"`
}

// Bounds of what an instance writes, and of what is read from the store.
const (
	maxSealed = 128 << 10 // bytes
	maxPlain  = 512 << 10 // bytes, uncompressed
	maxFew    = 2 * maxPolicies
	maxLast   = 1 << 37
)

// encodeNote returns a note, compressed and sealed, without the last of its keys and the first of its minutes if it is too large.
func encodeNote(n *note, secret []byte) []byte {
	short := *n
	for {
		plain, _ := json.Marshal(&short) // of numbers and texts
		var b bytes.Buffer
		w, _ := flate.NewWriter(&b, flate.BestSpeed) // the level is valid
		_, _ = w.Write(plain)                        // to memory
		_ = w.Close()
		if len(plain) <= maxPlain && b.Len() <= maxSealed-sealBytes {
			return sealer(secret).Seal(nil, nil, b.Bytes(), []byte(n.Instance.ID))
		}
		short.halve()
	}
}

// halve removes keys, or minutes if there are no keys, or policies if there are neither: counts are then lower than they could be.
func (n *note) halve() {
	if len(n.Keys) > 0 {
		n.Keys, n.Cut = n.Keys[:len(n.Keys)/2], true
		return
	}
	var policies few[notePolicy]
	more := false
	for _, p := range n.Policies {
		more = more || len(p.Minutes) > 0
		p.Minutes = p.Minutes[(len(p.Minutes)+1)/2:]
		policies = append(policies, p)
	}
	if n.Policies = policies; !more {
		n.Policies = policies[:len(policies)/2]
	}
}

var errInvalid = errors.New("seen: invalid document")

// decodeNote returns the note that the instance with an ID has sealed.
func decodeNote(id string, text, secret []byte) (*note, error) {
	if len(text) > maxSealed {
		return nil, errInvalid
	}
	packed, err := sealer(secret).Open(nil, nil, text, []byte(id))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxPlain+1))
	n := &note{}
	if err == nil && len(plain) <= maxPlain {
		err = json.Unmarshal(plain, n)
	}
	if err != nil || len(plain) > maxPlain || n.Instance.ID != id {
		return nil, errInvalid
	}
	for i := range n.Keys {
		if k := &n.Keys[i]; k.Policy < 0 || k.Policy >= len(n.Policies) || len(k.Key) > maxKey+1 || k.Last < 0 || k.Last > maxLast {
			return nil, errInvalid
		}
	}
	return n, nil
}

const sealBytes = 12 + 16 // the nonce, which is random, and the tag

// sealer returns what seals notes, so that only the instances that share the secret can read and write them.
func sealer(secret []byte) cipher.AEAD {
	block, err := aes.NewCipher(secret)
	if err != nil {
		panic(err) // the secret has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// few is a list in a note. It is read one by one, since an element of three bytes may take a hundred times as much in memory.
type few[T any] []T

// UnmarshalJSON reads the list, if it has not too many elements.
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
