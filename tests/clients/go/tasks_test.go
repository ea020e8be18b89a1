package clients

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for tries := 0; !holds(); tries++ {
		if tries == 4000 {
			t.Fatalf("in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// journal keeps how often each task was done.
type journal struct {
	lock sync.Mutex
	done map[string]int
}

func (one *journal) note(name string) int {
	one.lock.Lock()
	defer one.lock.Unlock()
	one.done[name]++
	return one.done[name]
}

func (one *journal) count(name string) int {
	one.lock.Lock()
	defer one.lock.Unlock()
	return one.done[name]
}

func TestAsynqRunsTasksLaterAgainAndTogether(t *testing.T) {
	plain := redis.NewClient(&redis.Options{Addr: address})
	defer plain.Close()
	if err := plain.FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	connection := asynq.RedisClientOpt{Addr: address}
	client, inspector := asynq.NewClient(connection), asynq.NewInspector(connection)
	defer client.Close()
	defer inspector.Close()
	seen := journal{done: map[string]int{}}
	handle := func(_ context.Context, task *asynq.Task) error {
		name := task.Type() + string(task.Payload())
		switch times := seen.note(name); {
		case task.Type() == "retry" && times < 3:
			return errors.New("not yet")
		case task.Type() == "broken":
			return fmt.Errorf("for good: %w", asynq.SkipRetry)
		}
		_, err := task.ResultWriter().Write([]byte("did " + name))
		return err
	}
	together := func(_ string, tasks []*asynq.Task) *asynq.Task {
		var all []string
		for _, task := range tasks {
			all = append(all, string(task.Payload()))
		}
		sort.Strings(all)
		return asynq.NewTask("together", []byte(strings.Join(all, ",")))
	}
	// Two servers share the tasks.
	for number := 0; number < 2; number++ {
		server := asynq.NewServer(connection, asynq.Config{
			Concurrency:              4,
			Queues:                   map[string]int{"critical": 2, "default": 1},
			LogLevel:                 asynq.FatalLevel,
			DelayedTaskCheckInterval: 50 * time.Millisecond,
			RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
			GroupAggregator:          asynq.GroupAggregatorFunc(together),
			GroupMaxSize:             3,
			GroupGracePeriod:         time.Second,
		})
		if err := server.Start(asynq.HandlerFunc(handle)); err != nil {
			t.Fatal(err)
		}
		defer server.Shutdown()
	}
	add := func(kind, payload string, options ...asynq.Option) *asynq.TaskInfo {
		t.Helper()
		told, err := client.Enqueue(asynq.NewTask(kind, []byte(payload)), options...)
		if err != nil {
			t.Fatal(err)
		}
		return told
	}
	state := func(told *asynq.TaskInfo) asynq.TaskState {
		now, err := inspector.GetTaskInfo(told.Queue, told.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now.State
	}

	for number := 0; number < 200; number++ {
		add("count", fmt.Sprint(number), asynq.Queue([]string{"default", "critical"}[number%2]))
	}
	kept := add("kept", "", asynq.Retention(time.Hour))
	retried := add("retry", "", asynq.MaxRetry(5), asynq.Retention(time.Hour))
	broken := add("broken", "")
	delayed := add("later", "", asynq.ProcessIn(time.Second), asynq.Retention(time.Hour))
	far := add("far", "", asynq.ProcessIn(time.Hour))
	if _, err := client.Enqueue(asynq.NewTask("far", nil), asynq.TaskID(far.ID)); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("a second task with one name: %v", err)
	}
	add("once", "", asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour))
	if _, err := client.Enqueue(asynq.NewTask("once", []byte{}), asynq.Unique(time.Hour)); !errors.Is(err, asynq.ErrDuplicateTask) {
		t.Errorf("a task that is there: %v", err)
	}
	for _, payload := range []string{"a", "b", "c"} {
		add("grouped", payload, asynq.Group("letters"))
	}
	eventually(t, "all are done", func() bool {
		for number := 0; number < 200; number++ {
			if seen.count(fmt.Sprint("count", number)) == 0 {
				return false
			}
		}
		done := state(kept) == asynq.TaskStateCompleted && state(retried) == asynq.TaskStateCompleted
		return done && state(delayed) == asynq.TaskStateCompleted && state(broken) == asynq.TaskStateArchived
	})
	for number := 0; number < 200; number++ {
		if times := seen.count(fmt.Sprint("count", number)); times != 1 {
			t.Errorf("task %d was done %d times", number, times)
		}
	}
	if told, err := inspector.GetTaskInfo("default", kept.ID); err != nil || string(told.Result) != "did kept" {
		t.Errorf("what a task returned: %v (error %v)", told, err)
	}
	if told, err := inspector.GetTaskInfo("default", retried.ID); err != nil || told.Retried != 2 || told.LastErr != "not yet" {
		t.Errorf("a task that was tried again: %v (error %v)", told, err)
	}
	eventually(t, "the group is done", func() bool { return seen.count("togethera,b,c") == 1 })
	if err := inspector.RunTask("default", far.ID); err != nil {
		t.Error(err)
	}
	eventually(t, "what was due in an hour is done", func() bool { return seen.count("far") == 1 })
	told, err := inspector.GetQueueInfo("default")
	if err != nil || told.Scheduled != 1 || told.Archived != 1 || told.Completed != 3 || told.Failed != 3 {
		t.Errorf("the queue: %+v (error %v)", told, err)
	}
	if err := inspector.PauseQueue("default"); err != nil {
		t.Error(err)
	}
	paused := add("paused", "")
	if deleted, err := inspector.DeleteAllPendingTasks("default"); err != nil || deleted != 1 {
		t.Errorf("%d tasks deleted (error %v), wanted %s alone", deleted, err, paused.ID)
	}
	if err := inspector.DeleteQueue("default", true); err != nil {
		t.Error(err)
	}
	if seen.count("paused") != 0 {
		t.Error("a paused queue went on")
	}
}
