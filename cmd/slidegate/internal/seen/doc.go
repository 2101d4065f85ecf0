// Package seen remembers what an instance of the service decided in the last hour, by policy and by key, in bounded memory, and shows it for
// all instances that share a store. An instance writes what it has seen to the store only while someone is looking, sealed: see Exchange.
package seen
