package ledger

import "errors"

// Causes a caller can test for.
var (
	// ErrNotFound is returned by Get for an id without a row.
	ErrNotFound = errors.New("ledger: no such row")
	// ErrInvalid is returned for a row or query that can never be right.
	ErrInvalid = errors.New("ledger: invalid")
	// ErrLocked is returned by Open while another process holds the folder.
	ErrLocked = errors.New("ledger: data folder in use")
	// ErrFolder is returned by Open for a folder it cannot use.
	ErrFolder = errors.New("ledger: data folder unusable")
	// ErrDamaged is returned for a file that is no ledger, and for a broken file or row.
	ErrDamaged = errors.New("ledger: damaged")
	// ErrNewer is returned by Open for a file of a later version.
	ErrNewer = errors.New("ledger: file of a newer version")
	// ErrReadOnly is returned for changes to a ledger opened with ReadOnly.
	ErrReadOnly = errors.New("ledger: opened for reading only")
	// ErrBacklog is returned by Begin while too many rows wait for the disk.
	ErrBacklog = errors.New("ledger: too many unwritten rows")
	// ErrStore is returned by Get, List and Sum while the store, a disk or a Redis, does
	// not do what it is asked to.
	ErrStore = errors.New("ledger: the store fails")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("ledger: closed")
)
