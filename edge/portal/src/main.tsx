import './styles.css';
import { createRoot } from 'react-dom/client';
import { createApi } from './api/client.ts';
import { createKeptStates } from './api/kept-state.ts';
import { App } from './app.tsx';
import { preloadPage } from './router/routed-page.tsx';

preloadPage(window.location.pathname);
const api = createApi();
const kept = createKeptStates(api);
void api.start();
createRoot(document.getElementById('root')!).render(<App api={api} kept={kept} />);
