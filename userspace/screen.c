// SPDX-License-Identifier: GPL-2.0
/* Commands that run until stopped: signals, waiting, and a screen for any terminal like a VT100. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "tcplat.h"

static volatile sig_atomic_t stop, suspend;
static bool has_screen;
static struct termios cooked, raw;
static FILE *page;
static char *text;
static size_t size;
static int first;		/* index of the first visible line that scrolls */

static void on_signal(int sig)
{
	stop |= sig != SIGWINCH && sig != SIGTSTP;
	suspend |= sig == SIGTSTP;
}

/* Signals that would end the process set stopped() from now on. */
void stop_on_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
	struct sigaction action = { .sa_handler = on_signal };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		/* nohup. The shell ignores SIGINT, too, for a job that scripts end with it. */
		if (signals[i] == SIGHUP && signal(SIGHUP, SIG_IGN) == SIG_IGN)
			continue;
		/* Another size of the window ends poll(), but no write(). */
		action.sa_flags = signals[i] == SIGWINCH ? SA_RESTART : 0;
		sigaction(signals[i], &action, NULL);
	}
	/* write() reports a closed pipe. */
	signal(SIGPIPE, SIG_IGN);
}

bool stopped(void)
{
	return stop;
}

static void enter(void)
{
	signal(SIGTSTP, on_signal);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	/* The alternate screen; no cursor; long lines are cut. */
	fputs("\e[?1049h\e[?25l\e[?7l", stdout);
}

static void leave(void)
{
	fputs("\e[?7h\e[?25h\e[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
	signal(SIGTSTP, SIG_DFL);
}

/*
 * Switch the terminal, if there is one, to a screen that is redrawn. Until screen_close(), signals
 * and q set stopped(). Return whether there is a screen.
 */
bool screen_open(void)
{
	const char *term = getenv("TERM");

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !term || !*term ||
	    !strcmp(term, "dumb") || tcgetattr(STDIN_FILENO, &cooked))
		return false;
	raw = cooked;
	raw.c_lflag &= ~(ICANON | ECHO);
	stop_on_signals();
	enter();
	has_screen = true;
	atexit(screen_close);
	return true;
}

void screen_close(void)
{
	if (!has_screen)
		return;
	has_screen = false;
	leave();
	free(text);
}

/* Start the next page. Return the stream to write to: two fixed lines, then lines that scroll. */
FILE *screen_page(void)
{
	if (!has_screen)
		return stdout;
	free(text);
	text = NULL;
	page = xmemstream(&text, &size);
	return page;
}

static void draw(void)
{
	struct winsize ws = { 0 };
	int nr = -2, room, y = 0;

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws);
	/* Serial consoles do not know their size. */
	room = (ws.ws_row ? ws.ws_row : 24) - 2;
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		nr++;
	room -= nr > room;
	if (first > nr - room)
		first = nr - room;
	if (first < 0)
		first = 0;
	fputs("\e[H", stdout);
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, y++)
		if (y < 2 || (y >= first + 2 && y < first + room + 2))
			printf("%s%s\e[K%.*s\e[m", y ? "\r\n" : "", y == 1 ? "\e[7m" : "",
			       (int)(end - line), line);
	fputs("\e[J", stdout);
	if (nr > room)
		printf("\r\n%d more: the arrow keys and Page Up, Page Down scroll", nr - room);
	fflush(stdout);
}

/* Show the page. Return whether it could be written. */
bool screen_show(void)
{
	if (!has_screen)
		return flush_output();
	fclose(page);
	draw();
	return true;
}

static void on_key(const char *key, ssize_t len)
{
	static const struct {
		const char *key;
		int lines;
	} moves[] = {
		{ "\e[A", -1 }, { "\e[B", 1 }, { "\eOA", -1 }, { "\eOB", 1 },
		{ "\e[5~", -20 }, { "\e[6~", 20 },
	};

	for (ssize_t i = 0; i < len; i++) {
		stop |= key[i] == 'q' || key[i] == 'Q';
		for (size_t j = 0; j < ARRAY_SIZE(moves); j++)
			if (!strncmp(key + i, moves[j].key, strlen(moves[j].key)))
				first += moves[j].lines;
	}
}

/* Wait, or until stopped(). Keys scroll meanwhile. */
void screen_wait(double seconds)
{
	double end = now_seconds() + seconds, left;
	sigset_t all, old;

	/* ppoll() unblocks signals, so that none is lost between the test of stop and ppoll(). */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	while (!stop && (left = end - now_seconds()) > 0.000001) {
		struct pollfd in = { .fd = has_screen ? STDIN_FILENO : -1, .events = POLLIN };
		struct timespec ts = {
			.tv_sec = (time_t)left,
			.tv_nsec = (long)((left - (time_t)left) * 1e9),
		};
		char keys[64] = "";
		int n = ppoll(&in, 1, &ts, &old);
		ssize_t len = n > 0 ? read(STDIN_FILENO, keys, sizeof(keys) - 1) : 0;

		if (suspend) {
			leave();
			raise(SIGTSTP);
			/* Stop here. In the background, enter() stops again. */
			sigprocmask(SIG_SETMASK, &old, NULL);
			suspend = false;
			enter();
			sigprocmask(SIG_BLOCK, &all, NULL);
		}
		/* The terminal is gone. */
		stop |= n > 0 && len <= 0;
		on_key(keys, len);
		/* A key, another size of the window, or back in the foreground. */
		if (n && has_screen && !stop)
			draw();
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
}
