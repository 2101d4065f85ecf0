package gate

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

// keyBytes is the length of a key.
const keyBytes = sha256.Size

// MinSecret is the length of the shortest secret that a key may be derived from.
const MinSecret = 16

// Keeper returns the key that all services share. If there is none yet, it stores the proposed one. It must be safe for
// use by several services concurrently, all of which must get the same key.
type Keeper func(ctx context.Context, proposed []byte) ([]byte, error)

// KeyFrom returns a Keeper of the key that is derived from a secret.
func KeyFrom(secret []byte) Keeper {
	key, err := hkdf.Key(sha256.New, secret, nil, "slidegate reservations", keyBytes)
	return func(context.Context, []byte) ([]byte, error) { return key, err } // fails only for far longer keys
}

const (
	renewAfter  = time.Minute            // the store may have lost its key, and another service created one
	retryAfter  = time.Second            // a store that is down is not called for every request
	loadTimeout = 250 * time.Millisecond // the longest that signing waits
)

// Key signs the reservations that clients get: without a signature, a client could forge one, and refund or charge what was
// never reserved. Services that share a store share the key, which a Keeper keeps in the store. While the Keeper returns no
// key, only this process recognizes the signatures. The key is random: every client has the token, and signatures would let
// clients try the store's password offline. It is safe for concurrent use. The zero value is not usable; call NewKey.
type Key struct {
	keeper Keeper
	log    *slog.Logger
	now    func() time.Time

	mu     sync.Mutex
	keys   [][]byte // the key in use first; the last is this process's own
	loaded bool     // whether keys[0] is the keeper's
	warned bool     // whether a missing key was logged
	next   time.Time
}

// NewKey returns a Key with the given Keeper. If keeper is nil, the key ends with the process.
func NewKey(keeper Keeper, log *slog.Logger) *Key {
	own := make([]byte, keyBytes)
	_, _ = rand.Read(own) // never fails
	return &Key{keeper: keeper, log: log, now: time.Now, keys: [][]byte{own}}
}

// sign returns a signature of text: letters, digits, - and _.
func (k *Key) sign(ctx context.Context, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(sum(k.current(ctx, renewAfter)[0], text))
}

// verify reports whether signature is a signature of text.
func (k *Key) verify(ctx context.Context, text []byte, signature string) bool {
	given, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil {
		return false
	}
	// If no key matches, another service may have signed with a key that this one has not seen yet.
	return matchesAny(k.current(ctx, renewAfter), text, given) || matchesAny(k.current(ctx, retryAfter), text, given)
}

func matchesAny(keys [][]byte, text, signature []byte) bool {
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

// current returns the keys, the signing key first. It calls the keeper if the keys are older than age.
func (k *Key) current(ctx context.Context, age time.Duration) [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	due := k.next // time of the last call plus retryAfter
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
	if err == nil && len(kept) != keyBytes {
		err = fmt.Errorf("gate: the stored reservation key has %d bytes, want %d; remove it to have a new one created", len(kept), keyBytes)
	}
	if err != nil {
		if !k.loaded && !k.warned { // once, not for every attempt
			k.warned = true
			k.log.Warn("reservations are signed with a key that only this process has, because the store returned no usable one; only this process can settle them; set --reservation-key-file on all instances", slog.Any("error", err))
		}
		return k.keys
	}
	k.loaded = true
	if !hmac.Equal(kept, k.keys[0]) {
		const maxKeys = 3 // the key in use, the one before, and this process's own
		keys := append([][]byte{kept}, k.keys...)
		if len(keys) > maxKeys {
			keys = [][]byte{keys[0], keys[1], keys[len(keys)-1]}
		}
		k.keys = keys // a new slice: others may be reading the old one
	}
	return k.keys
}

// Derive returns a secret for another purpose, which all services that share the key derive alike.
func (k *Key) Derive(ctx context.Context, purpose string) []byte {
	derived, _ := hkdf.Key(sha256.New, k.current(ctx, renewAfter)[0], nil, "slidegate "+purpose, keyBytes) // fails only for far longer keys
	return derived
}
