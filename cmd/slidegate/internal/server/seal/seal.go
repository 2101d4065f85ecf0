// Package seal has the key by which a service signs what it hands out to clients and wants to recognize later. Services that share a
// store share the key, which is kept there.
package seal

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// KeyBytes is the length of a key, and MinSecret that of the shortest secret that a key may be derived from.
const (
	KeyBytes  = sha256.Size
	MinSecret = 16
)

// Keeper returns the key that all services share. If there is none yet, it keeps the one that is proposed. It must be safe for use by
// several services at once, all of which must get the same key.
type Keeper func(ctx context.Context, proposed []byte) ([]byte, error)

// Fixed returns a Keeper of the key that is derived from a secret.
func Fixed(secret []byte) Keeper {
	key, err := hkdf.Key(sha256.New, secret, nil, "slidegate reservations", KeyBytes)
	return func(context.Context, []byte) ([]byte, error) { return key, err } // an error only if keys were to be far longer
}

const (
	renewAfter  = time.Minute            // a store may have lost its key, and another service made one
	retryAfter  = time.Second            // a store that is down is not asked for every request
	loadTimeout = 250 * time.Millisecond // signing waits for no longer
)

// Key signs by the key of a Keeper. What is signed while that has none to give is recognized by this process alone. It is safe for
// concurrent use. The zero value is not usable; New makes it.
type Key struct {
	keeper Keeper
	log    *slog.Logger
	now    func() time.Time

	mu     sync.Mutex
	keys   [][]byte // the one in use first; the last is this process's own
	loaded bool     // whether keys[0] is the keeper's
	warned bool     // whether it was logged that it is not
	next   time.Time
}

// New returns a key that is kept by a Keeper; by nobody if that is nil, so that it ends with the process.
func New(keeper Keeper, log *slog.Logger) *Key {
	own := make([]byte, KeyBytes)
	_, _ = rand.Read(own) // which never fails
	return &Key{keeper: keeper, log: log, now: time.Now, keys: [][]byte{own}}
}

// Sign returns a signature of text: letters, digits, - and _.
func (k *Key) Sign(ctx context.Context, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(sum(k.current(ctx, renewAfter)[0], text))
}

// Verify reports whether a signature is one of text.
func (k *Key) Verify(ctx context.Context, text []byte, signature string) bool {
	given, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil {
		return false
	}
	// If none fits, another service may have signed by a key that this one has not seen yet.
	return signedByOne(k.current(ctx, renewAfter), text, given) || signedByOne(k.current(ctx, retryAfter), text, given)
}

func signedByOne(keys [][]byte, text, signature []byte) bool {
	for _, key := range keys {
		if hmac.Equal(sum(key, text), signature) {
			return true
		}
	}
	return false
}

func sum(key, text []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return mac.Sum(nil)
}

// current returns the keys, the first of which is to be signed by. The keeper is asked if what is known is older than age.
func (k *Key) current(ctx context.Context, age time.Duration) [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	due := k.next // of the last time that it was asked, plus retryAfter
	if k.loaded {
		due = due.Add(age - retryAfter)
	}
	if k.keeper == nil || now.Before(due) {
		return k.keys
	}
	k.next = now.Add(retryAfter)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	kept, err := k.keeper(ctx, k.keys[0])
	if err == nil && len(kept) != KeyBytes {
		err = fmt.Errorf("seal: the key that is kept has %d bytes, not %d; remove it to have another made", len(kept), KeyBytes)
	}
	if err != nil {
		if !k.loaded && !k.warned { // once, and not as often as it is tried again
			k.warned = true
			k.log.Warn("reservations are signed by a key that only this process has, because none is kept; only this process can settle them", slog.Any("error", err))
		}
		return k.keys
	}
	k.loaded = true
	if !hmac.Equal(kept, k.keys[0]) {
		const most = 3 // the one in use, the one before, and this process's own
		keys := append([][]byte{kept}, k.keys...)
		if len(keys) > most {
			keys = [][]byte{keys[0], keys[1], keys[len(keys)-1]}
		}
		k.keys = keys // a new one: others may be reading the old
	}
	return k.keys
}
