// Package keyform reads keys as people write them: the name, the address or the secret by which they know a client, instead of
// the bytes that requests are counted by. Lists, overrides and rulings of policies are written so.
package keyform
