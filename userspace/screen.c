// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers for commands that run until stopped: signals, waiting, and a terminal
 * screen. Without ncurses there is no screen.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef HAVE_NCURSES
#include <ncurses.h>
#endif

#include "report.h"
#include "screen.h"
#include "tcplat.h"

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* Signals that would end the process set stopped() from now on. */
void stop_on_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action = { .sa_handler = on_signal };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}

bool stopped(void)
{
	return stop;
}

double now_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static bool has_screen;
static FILE *page;
static char *text;
static size_t size;

#ifdef HAVE_NCURSES

static struct screen *terminal;
static int first;		/* index of the first visible line that scrolls */

/* Draw two fixed lines and, below them, the lines that fit. */
static void draw(void)
{
	int nr = -2, room = LINES - 2, y = 0;

	for (const char *p = text; (p = strchr(p, '\n')); p++)
		nr++;
	if (nr > room)
		room--;
	if (first > nr - room)
		first = nr - room;
	if (first < 0)
		first = 0;

	erase();
	mvhline(1, 0, ' ' | A_REVERSE, COLS);
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, y++) {
		int at = y < 2 ? y : y - first;

		if (y >= 2 && (at < 2 || at >= room + 2))
			continue;
		if (y == 1)
			attron(A_REVERSE);
		mvaddnstr(at, 0, line, end - line < COLS ? end - line : COLS);
		attroff(A_REVERSE);
	}
	if (nr > room) {
		char *more = xasprintf("%d more: the arrow keys and Page Up, Page Down scroll",
				       nr - room);

		mvaddnstr(LINES - 1, 0, more, COLS);
		free(more);
	}
	refresh();
}

static void on_key(int key)
{
	int screenful = LINES - 3;

	switch (key) {
	case 'q':
	case 'Q':
		stop = 1;
		return;
	case KEY_UP:
		first--;
		break;
	case KEY_DOWN:
		first++;
		break;
	case KEY_PPAGE:
		first -= screenful;
		break;
	case KEY_NPAGE:
		first += screenful;
		break;
	case KEY_RESIZE:
		break;
	default:
		return;
	}
	draw();
}

static void read_keys(void)
{
	int key;

	while (has_screen && !stop && (key = getch()) != ERR)
		on_key(key);
}

/**
 * screen_open - switch the terminal, if there is one, to a screen that is redrawn
 *
 * Until screen_close(), signals and q set stopped().
 *
 * Return: whether there is a screen
 */
bool screen_open(void)
{
	const char *term = getenv("TERM");

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !term || !*term ||
	    !strcmp(term, "dumb"))
		return false;
	terminal = newterm(NULL, stdout, stdin);
	if (!terminal)
		return false;
	has_screen = true;
	/* After newterm(), which installs handlers that end the process. */
	stop_on_signals();
	atexit(screen_close);
	cbreak();
	noecho();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	return true;
}

void screen_close(void)
{
	if (!has_screen)
		return;
	has_screen = false;
	endwin();
	delscreen(terminal);
	free(text);
}

#else

static void draw(void)
{
}

static void read_keys(void)
{
}

bool screen_open(void)
{
	return false;
}

void screen_close(void)
{
}

#endif

/**
 * screen_page - start the next page
 *
 * Return: the stream to write to: two fixed lines, then lines that scroll
 */
FILE *screen_page(void)
{
	if (!has_screen)
		return stdout;
	free(text);
	text = NULL;
	page = open_memstream(&text, &size);
	if (!page) {
		report(STATUS_FAULT, "out of memory");
		exit(STATUS_FAULT);
	}
	return page;
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

/* Wait, or until stopped(). Keys scroll meanwhile. */
void screen_wait(double seconds)
{
	double end = now_seconds() + seconds, left;
	sigset_t all, old;

	/* ppoll() unblocks signals, so that none is lost between the test of stop and ppoll(). */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	while (read_keys(), left = end - now_seconds(), !stop && left > 0) {
		struct pollfd in = { .fd = has_screen ? STDIN_FILENO : -1, .events = POLLIN };
		struct timespec ts = {
			.tv_sec = (time_t)left,
			.tv_nsec = (long)((left - (time_t)left) * 1e9),
		};

		/* The terminal is gone. */
		if (ppoll(&in, 1, &ts, &old) > 0 && in.revents & (POLLHUP | POLLERR))
			stop = 1;
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
}
